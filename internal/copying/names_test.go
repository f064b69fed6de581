package copying

import (
	"errors"
	"fmt"
	"testing"

	"github.com/haul-project/haul/sftp/sftpclient"
)

// A failure on this machine is not named after the request to the server, and a lost
// connection is reported once.
func TestReasons(t *testing.T) {
	here := &sftpclient.TransferError{Op: "read", Name: "/f", Offset: 5, Local: true, Err: errors.New("write x: no space left")}
	there := &sftpclient.TransferError{Op: "write", Name: "/f", Offset: 5, Err: sftpclient.ErrConnectionLost}
	for _, c := range []struct {
		err  error
		want string
	}{
		{here, "at byte 5: write x: no space left"},
		{fmt.Errorf("copy: %w", here), "copy: at byte 5: write x: no space left"},
		{there, there.Error()},
		{errors.Join(there, fmt.Errorf("cut /f: %w", sftpclient.ErrConnectionLost)), there.Error()},
		{errors.Join(here, errors.New("other")), "at byte 5: write x: no space left\nother"},
	} {
		if got := reason(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

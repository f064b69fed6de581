package copying

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store/treecopy"
)

// A failure on this machine is not described as the request to the server, and a lost connection is
// reported once.
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

// For get, the error of a local file names the target's directory.
func TestRewordLocal(t *testing.T) {
	dir := t.TempDir()
	n := sourceNames{verb: "get", targetAt: localAt(dir), toLocal: true}
	n.add("h:d", false, strings.Clone, treecopy.Source{Name: "d"})
	denied := &fs.PathError{Op: "create", Path: "d/f", Err: fs.ErrPermission}
	want := "get h:d/f: create " + filepath.Join(dir, "d", "f") + ": " + fs.ErrPermission.Error()
	if got := n.reword(&treecopy.EntryError{From: "d/f", To: "d/f", Err: denied}); got.Error() != want || !errors.Is(got, fs.ErrPermission) {
		t.Errorf("%q, want %q", got, want)
	}
}

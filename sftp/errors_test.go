package sftp

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/users"
)

// The text of a STATUS explains what is wrong with a request.
func TestStatusWords(t *testing.T) {
	_, as := newSharedTree(t, false)
	full, up := as(users.Full), as(users.UploadOnly)
	full.put("old", "x")
	full.want(wire.OK, wire.AppendMkdir(nil, full.n(), "dir", wire.Attrs{}))
	up.put("part", "x")
	for _, c := range []struct {
		p      *sftpPeer
		packet []byte
		want   error
	}{
		{full, wire.AppendPosixRename(nil, 1000, "dir", "dir/dir"), storewire.ErrBelowItself},
		{full, wire.AppendRename(nil, 1000, "dir", "dir/x"), storewire.ErrBelowItself},
		{full, wire.AppendStat(nil, 1000, "a\x00b"), fs.ErrInvalid},
		{full, wire.AppendRename(nil, 1000, "old", "old"), fs.ErrExist},
		{up, wire.AppendOpen(nil, 1000, "old", openAnew, wire.Attrs{}), storewire.ErrUploadOnly},
		{up, wire.AppendPosixRename(nil, 1000, "part", "old"), storewire.ErrUploadOnly},
		{up, wire.AppendMkdir(nil, 1000, "dir", wire.Attrs{}), fs.ErrExist},
	} {
		status, text := storewire.StatusOf(c.want)
		c.p.id = 1000
		r := c.p.ask(c.packet)
		e, ok := errors.AsType[*wire.StatusError](r.Err())
		if !ok || e.Status != status || e.Message != text {
			t.Errorf("%q: %v, want %v %q", c.packet, e, status, text)
		}
	}
}

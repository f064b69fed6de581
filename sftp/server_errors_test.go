package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// The kinds of errors, the codes that OpenSSH has for them, and back.
func TestServerStatus(t *testing.T) {
	tests := []struct {
		err  error
		want wire.Status
		kind error // what a client of ours gets
	}{
		{nil, wire.OK, nil},
		{io.EOF, wire.EOF, io.EOF},
		{fs.ErrNotExist, wire.NoSuchFile, fs.ErrNotExist},
		{syscall.ENOENT, wire.NoSuchFile, fs.ErrNotExist},
		{syscall.ELOOP, wire.NoSuchFile, fs.ErrNotExist},
		{fs.ErrPermission, wire.PermissionDenied, fs.ErrPermission},
		{syscall.EACCES, wire.PermissionDenied, fs.ErrPermission},
		{fs.ErrExist, wire.Failure, fs.ErrExist},
		{syscall.ENOTEMPTY, wire.Failure, fs.ErrExist},
		{fs.ErrInvalid, wire.BadMessage, fs.ErrInvalid},
		{errors.ErrUnsupported, wire.Unsupported, errors.ErrUnsupported},
		{store.ErrNoSpace, wire.Failure, store.ErrNoSpace},
		{store.ErrNotRegular, wire.Failure, store.ErrNotRegular},
		{errNotEmpty, wire.Failure, errNotEmpty},
		{errNotEmpty, wire.Failure, fs.ErrExist},
		{errBusy, wire.Failure, errBusy},
		{errKept, wire.Failure, fs.ErrExist},
		{errBelowItself, wire.Failure, fs.ErrInvalid},
		{errNotUTF8, wire.BadMessage, fs.ErrInvalid},
		{fs.ErrClosed, wire.Failure, nil},
		{context.Canceled, wire.Failure, nil},
		{errors.New("something else"), wire.Failure, nil},
	}
	for _, test := range tests {
		err := test.err
		if err != nil {
			err = fmt.Errorf("open /somewhere: %w", err)
		}
		status, text := statusOf(err)
		if status != test.want || text == "" {
			t.Errorf("%v becomes %v %q, want %v", test.err, status, text, test.want)
		}
		back := newStatusError(&wire.StatusError{Status: status, Message: text})
		if test.kind != nil && !errors.Is(back, test.kind) {
			t.Errorf("%v becomes %v for a client", test.err, back)
		}
		for _, kind := range []error{io.EOF, fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, fs.ErrInvalid, store.ErrNoSpace} {
			if is := errors.Is(back, kind); is && !errors.Is(test.kind, kind) {
				t.Errorf("%v is %v for a client", test.err, kind)
			}
		}
	}
	// Of other servers' failures nothing is known.
	for _, kind := range []error{fs.ErrExist, fs.ErrPermission, store.ErrNoSpace} {
		if errors.Is(newStatusError(&wire.StatusError{Status: wire.Failure, Message: "Failure"}), kind) {
			t.Errorf("a failure is %v", kind)
		}
	}
	e := newStatusError(&wire.StatusError{Status: wire.Failure, Message: "\x1b[31mred"})
	if got := e.Error(); got != "server says failure: ?[31mred (status 4)" {
		t.Errorf("the error reads %q", got)
	}
}

// What is wrong with a request is said in words that help.
func TestServerStatusWords(t *testing.T) {
	_, as := serverShared(t, false)
	full, up := as(users.Full), as(users.UploadOnly)
	full.put("old", "x")
	full.want(wire.OK, wire.AppendMkdir(nil, full.n(), "dir", wire.Attrs{}))
	up.put("part", "x")
	for _, c := range []struct {
		p      *serverPeer
		packet []byte
		want   error
	}{
		{full, wire.AppendPosixRename(nil, 1000, "dir", "dir/dir"), errBelowItself},
		{full, wire.AppendRename(nil, 1000, "dir", "dir/x"), errBelowItself},
		{full, wire.AppendStat(nil, 1000, "a\x00b"), fs.ErrInvalid},
		{full, wire.AppendRename(nil, 1000, "old", "old"), fs.ErrExist},
		{up, wire.AppendOpen(nil, 1000, "old", serverAnew, wire.Attrs{}), errKept},
		{up, wire.AppendPosixRename(nil, 1000, "part", "old"), errKept},
		{up, wire.AppendMkdir(nil, 1000, "dir", wire.Attrs{}), fs.ErrExist},
	} {
		status, text := statusOf(c.want)
		c.p.id = 1000
		r := c.p.ask(c.packet)
		e, ok := errors.AsType[*wire.StatusError](r.Err())
		if !ok || e.Status != status || e.Message != text {
			t.Errorf("%q: %v, want %v %q", c.packet, e, status, text)
		}
	}
}

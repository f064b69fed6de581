package storewire

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
)

// Each kind of error is sent with OpenSSH's code, and our client recognizes the kind.
func TestStatusOf(t *testing.T) {
	tests := []struct {
		err  error
		want wire.Status
		kind error // the error that our client reports
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
		{store.ErrUnsettled, wire.Failure, store.ErrUnsettled},
		{store.ErrNotRegular, wire.Failure, store.ErrNotRegular},
		{ErrNotEmpty, wire.Failure, ErrNotEmpty},
		{ErrNotEmpty, wire.Failure, fs.ErrExist},
		{ErrBusy, wire.Failure, ErrBusy},
		{ErrUploadOnly, wire.Failure, fs.ErrExist},
		{ErrBelowItself, wire.Failure, fs.ErrInvalid},
		{ErrNotUTF8, wire.BadMessage, fs.ErrInvalid},
		{fs.ErrClosed, wire.Failure, nil},
		{context.Canceled, wire.Failure, nil},
		{errors.New("something else"), wire.Failure, nil},
	}
	for _, test := range tests {
		err := test.err
		if err != nil {
			err = fmt.Errorf("open /somewhere: %w", err)
		}
		status, text := StatusOf(err)
		if status != test.want || text == "" {
			t.Errorf("%v becomes %v %q, want %v", test.err, status, text, test.want)
		}
		back := KindOf(&wire.StatusError{Status: status, Message: text})
		if test.kind != nil && !errors.Is(back, test.kind) {
			t.Errorf("%v becomes %v for a client", test.err, back)
		}
		for _, kind := range []error{io.EOF, fs.ErrNotExist, fs.ErrPermission, fs.ErrExist, fs.ErrInvalid, store.ErrNoSpace} {
			if is := errors.Is(back, kind); is && !errors.Is(test.kind, kind) {
				t.Errorf("%v is %v for a client", test.err, kind)
			}
		}
	}
	// The reasons for other servers' failures are unknown.
	for _, kind := range []error{fs.ErrExist, fs.ErrPermission, store.ErrNoSpace} {
		if errors.Is(KindOf(&wire.StatusError{Status: wire.Failure, Message: "Failure"}), kind) {
			t.Errorf("a failure is %v", kind)
		}
	}
}

package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

func TestIsRemote(t *testing.T) {
	here := &TransferError{Op: "write", Name: "f", Local: true, Err: io.ErrUnexpectedEOF}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"of nobody":                    {nil, false},
		"of a local file":              {&fs.PathError{Op: "open", Path: "f", Err: store.ErrNoSpace}, false},
		"of a remote file":             {pathError("create", "f", store.ErrNoSpace), true},
		"inside others":                {fmt.Errorf("copy: %w", linkError("rename", "f", "g", store.ErrBusy)), true},
		"of the reader":                {here, false},
		"of the reader, reported late": {pathError("commit", "f", here), false},
		"of the transfer":              {&TransferError{Op: "read", Name: "f", Err: ErrProtocol}, true},
		"of the reader, for a server":  {&TransferError{Op: "write", Name: "f", Local: true, Err: onServer(store.ErrBusy)}, true},
		"of who has interrupted":       {pathError("commit", "f", context.Canceled), false},
	} {
		if got := IsRemote(c.err); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A file of unknown type is not opened, and the error counts as an error of the server's side.
func TestNotRegularIsRemote(t *testing.T) {
	withFakeServer(t, Config{}, func(p *fakeServer) {
		p.put(t, "f", []byte("f"))
		p.hook = func(_ *fakeSession, q wire.Request, reply []byte) ([]byte, bool) {
			if q.Type != wire.TypeStat {
				return nil, false
			}
			return wire.AppendAttrs(reply, q.ID, wire.Attrs{}), true
		}
	}, func(t *testing.T, _ *fakeServer, c *Client) {
		_, err := c.Store("/").Open(t.Context(), "f")
		if !errors.Is(err, store.ErrNotRegular) || !IsRemote(err) {
			t.Errorf("Open of what is not described: %v", err)
		}
	})
}

// The text of a server's error is safe to print.
func TestStatusErrorText(t *testing.T) {
	e := refused(&wire.StatusError{Status: wire.Failure, Message: "\x1b[31mred"})
	if got := e.Error(); got != "server says failure: ?[31mred (status 4)" {
		t.Errorf("the error reads %q", got)
	}
}

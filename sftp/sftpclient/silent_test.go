package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// At some moment, a server stops answering requests that move data, or all requests. The client
// gives up after it has tried as many sessions as a file is opened in. It then closes in bounded
// time, including all cleanup: up to two calls, each of which may take as long as a handshake.
func TestSilentServers(t *testing.T) {
	const most = 3*defaultStall + 2*DefaultTimeout
	fetch := func(ctx context.Context, c *Client) error {
		f, err := c.Open(ctx, "f")
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.FetchTo(ctx, discardAt{}, 0)
		return err
	}
	send := func(resume string) func(context.Context, *Client) error {
		return func(ctx context.Context, c *Client) error {
			u, err := c.Store("/").Create(ctx, "g", store.Create{Size: 4 << 20, Resume: resume})
			if err != nil {
				return err
			}
			defer u.Close()
			_, err = u.(interface {
				FillFrom(context.Context, io.ReaderAt, int64, int64) (int64, error)
			}).FillFrom(ctx, bytes.NewReader(make([]byte, 4<<20)), 0, 4<<20)
			return err
		}
	}
	for _, test := range []struct {
		name string
		to   wire.Type
		all  bool // the server then answers no request at all
		run  func(context.Context, *Client) error
	}{
		{"READ", wire.TypeRead, false, fetch},
		{"READ and all behind", wire.TypeRead, true, fetch},
		{"WRITE", wire.TypeWrite, false, send("")},
		{"WRITE and all behind", wire.TypeWrite, true, send("")},
		{"WRITE of what is kept", wire.TypeWrite, false, send("me")},
	} {
		withFakeServer(t, Config{}, func(p *fakeServer) {
			p.conns = 8
			p.put(t, "f", make([]byte, 4<<20))
			var silent atomic.Bool
			p.hook = func(s *fakeSession, q wire.Request, _ []byte) ([]byte, bool) {
				if q.Type == test.to && test.all {
					silent.Store(true)
				}
				return nil, q.Type == test.to || silent.Load()
			}
		}, func(t *testing.T, p *fakeServer, c *Client) {
			began := time.Now()
			err := test.run(t.Context(), c)
			took := time.Since(began)
			t.Logf("%s: %v: %v", test.name, took, err)
			if !errors.Is(err, ErrStalled) || !IsRemote(err) || took < defaultStall || took > most {
				t.Errorf("no answer to %s: after %v, and %v are the most: %v", test.name, took, most, err)
			}
		})
	}
}

type discardAt struct{}

func (discardAt) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

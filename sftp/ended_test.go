package sftp

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
)

// Transfers that are open when the server ends a connection report its reason as their error.
// Transfers that are open when the client disconnects report ErrAbandoned.
func TestSaysWhyItEnds(t *testing.T) {
	removed := errors.New("the user was removed")
	for _, test := range []struct {
		name string
		end  func(w *testServer, c *ssh.Client, life context.CancelCauseFunc)
		conn error // why the connection ended
		file error // the error of the file
	}{
		{"the account's life", func(_ *testServer, _ *ssh.Client, life context.CancelCauseFunc) { life(removed) }, removed, removed},
		{"idle", func(*testServer, *ssh.Client, context.CancelCauseFunc) { time.Sleep(time.Hour) }, errIdle, errIdle},
		{"the server's end", func(w *testServer, _ *ssh.Client, _ context.CancelCauseFunc) { w.cancel() }, context.Canceled, context.Canceled},
		{"the client's end", func(_ *testServer, c *ssh.Client, _ context.CancelCauseFunc) { c.Close() }, nil, ErrAbandoned},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, end := context.WithCancelCause(t.Context())
				var mu sync.Mutex
				var ended []*Transfer
				w := newTestServer(t, func(w *testServer, s *Server) {
					s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
						return &Account{Tree: w.tree, Hidden: true, Life: life}, nil
					}
					s.Ended = func(x *Transfer) {
						mu.Lock()
						defer mu.Unlock()
						ended = append(ended, x)
					}
				})
				c := w.login("192.0.2.1")
				p := w.sftp(c)
				p.write(p.open("half", openAnew), 0, "half of")
				synctest.Wait()
				test.end(w, c, end)
				conn := w.last(1)
				if test.conn == nil && conn.Err != nil || !errors.Is(conn.Err, test.conn) {
					t.Errorf("the connection ended by %v, want %v", conn.Err, test.conn)
				}
				mu.Lock()
				defer mu.Unlock()
				if len(ended) != 1 || !errors.Is(ended[0].Err, test.file) || errors.Is(ended[0].Err, ErrEnded) == (test.file == ErrAbandoned) {
					t.Errorf("reported %v, whose end is to be %v", ended, test.file)
				}
				end(nil)
			})
		})
	}
}

// If a client has closed its files and leaves without reading the last answer, the system reports a
// reset, but the connection ends without an error. If a file is open, the reset is an error.
func TestResetAfterClose(t *testing.T) {
	for _, open := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newTestServer(t, nil)
			nc := w.connect("192.0.2.1")
			c, err := w.dial(nc, w.clientConfig())
			if err != nil {
				t.Fatal(err)
			}
			p := w.sftp(c)
			h := p.open("file", openAnew)
			if !open {
				p.close(h)
			}
			synctest.Wait()
			nc.reset()
			if err := w.last(1).Err; errors.Is(err, syscall.ECONNRESET) != open || err != nil != open {
				t.Errorf("with the file open (%v) the connection ended by %v", open, err)
			}
		})
	}
}

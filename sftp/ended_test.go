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
// reset, but the connection ends without an error. If a file is open, or before the login, the reset
// is an error.
func TestResetAfterClose(t *testing.T) {
	for _, test := range []struct {
		name  string
		begin func(w *testServer, nc *wireEnd)
		whole bool // the connection ends without an error
	}{
		{"all files closed", func(w *testServer, nc *wireEnd) {
			p := w.sftp(w.loginOver(nc))
			p.close(p.open("file", openAnew))
		}, true},
		{"no session", func(w *testServer, nc *wireEnd) { w.loginOver(nc) }, true},
		{"an open file", func(w *testServer, nc *wireEnd) { w.sftp(w.loginOver(nc)).open("file", openAnew) }, false},
		{"one of two files closed", func(w *testServer, nc *wireEnd) {
			p := w.sftp(w.loginOver(nc))
			p.open("open", openAnew)
			p.close(p.open("file", openAnew))
		}, false},
		{"before the login", func(*testServer, *wireEnd) {}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestServer(t, nil)
				nc := w.connect("192.0.2.1")
				test.begin(w, nc)
				synctest.Wait()
				nc.reset()
				err := w.last(1).Err
				if test.whole && err != nil || !test.whole && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("the connection ended by %v", err)
				}
			})
		})
	}
}

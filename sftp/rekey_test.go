package sftp

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// During a key exchange nothing is sent, and little is kept: a peer that never finishes one gets
// no more memory for it (CVE-2025-22869).
func TestUnfinishedRekey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, slow, s, p, h := newSlowRead(t)
		before := heap()
		slow.read.Store(0)
		for range 1000 {
			p.send(wire.AppendRead(nil, p.n(), h, 0, maxData))
		}
		if err := s.write(s.kexInit()); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, s.nc) }()
		synctest.Wait()
		if n := slow.read.Load(); n > 32<<20 { // of 255 MB
			t.Errorf("%d bytes were read from the store", n)
		}
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("it takes %d bytes", grown)
		}
		if e := w.last(1); !errors.Is(e.Err, errIdle) {
			t.Errorf("it ended by %v", e.Err)
		}
	})
}

// The same holds for a key exchange that the server begins in the middle of a file.
func TestUnansweredRekey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTree{}
		w := newTestServer(t, func(w *testServer, s *Server) {
			slow.Tree = w.tree
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) { return &Account{Tree: slow}, nil }
			old := s.SSH
			s.SSH = func(ctx context.Context, nc net.Conn) (*ssh.ServerConfig, error) {
				c, err := old(ctx, nc)
				c.RekeyThreshold = 4 << 20
				return c, err
			}
		})
		s := newRawSSH(w.connect("192.0.2.1"))
		if err := s.login(); err != nil {
			t.Fatal(err)
		}
		p := s.session(t)
		h := p.open("file", openAnew|wire.OpenRead)
		p.write(h, 0, testBytes(maxData))
		slow.read.Store(0)
		go func() { _, _ = io.Copy(io.Discard, s.nc) }()
		for range 1000 {
			p.send(wire.AppendRead(nil, p.n(), h, 0, maxData))
		}
		synctest.Wait()
		if n := slow.read.Load(); n > 32<<20 || n < 4<<20 { // of 255 MB
			t.Errorf("%d bytes were read from the store, with 4 MiB to go and 2 MiB to keep", n)
		}
		if e := w.last(1); !errors.Is(e.Err, errIdle) {
			t.Errorf("it ended by %v", e.Err)
		}
	})
}

// Keys may change at any rate while data flows.
func TestRekey(t *testing.T) {
	w := newTestServer(t, nil)
	config := w.clientConfig()
	config.RekeyThreshold = 256 << 10
	c, err := w.dial(w.connect("192.0.2.1"), config)
	if err != nil {
		t.Fatal(err)
	}
	p := w.sftp(c)
	data := testBytes(8 << 20)
	h := p.open("file", openAnew|wire.OpenRead)
	for off := 0; off < len(data); off += 128 << 10 {
		p.write(h, int64(off), data[off:off+128<<10])
	}
	p.wantFile("file", data)
}

package sftp

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// benchSession runs requests through a session alone: the server's cost without SSH.
func benchSession(b *testing.B, tree store.Tree, size int, request func(b []byte, h string, off int64) []byte) {
	d := newDirectServer(b, func(_ *Server, a *Account) { a.Tree = tree })
	script := &scriptedStream{}
	s := newSession(b.Context(), &d.connect().userConn, script)
	defer s.end()
	play := func(p []byte) {
		script.left = p
		for {
			packet, err := s.next()
			if err == errScript {
				return
			}
			if err == nil {
				err = s.handle(packet)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	play(wire.AppendOpen(wire.AppendInit(nil, 3), 1, "file", openAnew|wire.OpenRead, wire.Attrs{}))
	var h string
	for o := range s.handles.all() {
		h = o.key
	}
	var all []byte
	for i := range 16 {
		play(wire.AppendWrite(nil, 2, h, int64(i*size), make([]byte, size)))
		all = request(all, h, int64(i*size))
	}
	b.SetBytes(int64(16 * size))
	for b.Loop() {
		play(all)
	}
}

func BenchmarkServerSession(b *testing.B) {
	root, err := os.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	for name, tree := range map[string]store.Tree{"memory": store.Mem(0), "disk": localdir.New(root)} {
		for _, size := range []int{100, 32 << 10, maxData} {
			data := make([]byte, size)
			b.Run(fmt.Sprintf("%s/read/%d", name, size), func(b *testing.B) {
				benchSession(b, tree, size, func(p []byte, h string, off int64) []byte { return wire.AppendRead(p, 1, h, off, uint32(size)) })
			})
			b.Run(fmt.Sprintf("%s/write/%d", name, size), func(b *testing.B) {
				benchSession(b, tree, size, func(p []byte, h string, off int64) []byte { return wire.AppendWrite(p, 1, h, off, data) })
			})
		}
	}
}

// BenchmarkServer runs requests through SSH on the loopback interface, with 64 under way. The
// cost of the client is included.
func BenchmarkServer(b *testing.B) {
	for _, size := range []int{32 << 10, maxData} {
		for _, write := range []bool{false, true} {
			name := map[bool]string{false: "read", true: "write"}[write]
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) { benchServer(b, size, write) })
		}
	}
}

func benchServer(b *testing.B, size int, write bool) {
	root, err := os.OpenRoot(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	w := newTestServer(b, func(_ *testServer, s *Server) {
		s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
			return &Account{Tree: localdir.New(root)}, nil
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	w.conns.Go(func() { _ = w.server.Serve(w.ctx, l) })
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	c, err := w.dial(sshconn.New(nc), w.clientConfig())
	if err != nil {
		b.Fatal(err)
	}
	p := w.sftp(c)
	h := p.open("file", openAnew|wire.OpenRead)
	data := make([]byte, size)
	const span = 64
	for i := range span {
		p.write(h, int64(i*size), string(data))
	}
	replies := make(chan struct{}, span)
	go func() {
		head := make([]byte, 4)
		rest := make([]byte, wire.MaxPacket)
		for {
			if _, err := io.ReadFull(p.rw, head); err != nil {
				return
			}
			n := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
			if _, err := io.ReadFull(p.rw, rest[:n]); err != nil {
				return
			}
			replies <- struct{}{}
		}
	}()
	var packet []byte
	b.SetBytes(int64(size))
	i := 0
	for b.Loop() {
		if i >= span {
			<-replies
		}
		off := int64(i % span * size)
		if packet = packet[:0]; write {
			packet = wire.AppendWrite(packet, uint32(i), h, off, data)
		} else {
			packet = wire.AppendRead(packet, uint32(i), h, off, uint32(size))
		}
		if _, err := p.rw.Write(packet); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

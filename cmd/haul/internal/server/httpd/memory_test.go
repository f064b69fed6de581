//go:build unix

package httpd

import (
	"crypto/tls"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/writebehind"
	"github.com/haul-project/haul/internal/certs"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/web"
)

// A client that requests 100 files at a time over one HTTP/2 connection, and reads nothing, gets
// the allowed number, and takes no more memory than docs/http.md says.
func TestSlowClientOfHTTP2(t *testing.T) {
	const asked, size = 100, 64 << 20
	path := t.TempDir()
	servetest.WriteFile(t, filepath.Join(path, "f"), "")
	if err := os.Truncate(filepath.Join(path, "f"), size); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	cert, err := certs.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	var opened, open atomic.Int64
	p := &port{scheme: handover.HTTPS, accept: tcp.Server{Log: slog.New(slog.DiscardHandler), SplitALPN: "h2"}}
	p.accept.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}}
	p.open(&web.Handler{Store: countingStore{localdir.New(root), &opened, &open}}, io.Discard)
	socket, err := tcp.Listen(t.Context(), "127.0.0.1:0", socketOptions)
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.accept.Listener(socket)
	if err != nil {
		t.Fatal(err)
	}
	startPort(t, p, l, p.serve)
	c, err := tls.Dial("tcp", socket.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(servetest.Patience))
	before := heap()
	if _, err := io.WriteString(c, h2Requests("/f", asked)); err != nil {
		t.Fatal(err)
	}
	servetest.Eventually(t, "all files that may be open are", func() bool { return open.Load() == streams })
	if n := opened.Load(); n != streams {
		t.Errorf("%d files were opened, want %d", n, streams)
	}
	const spare = 4 << 20 // for the goroutines, and the buffers of crypto/tls
	if got, most := heap()-before, int64(writebehind.MaxBuffered+streams*128<<10+spare); got > most {
		t.Errorf("it takes %d KiB, want %d at most", got>>10, most>>10)
	}
}

// heap returns how many bytes are live.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package httpd

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/logins"
	"github.com/haul-project/haul/cmd/haul/internal/server/service"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/server/writebehind"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// The connections of HTTP, and the files of their requests, fit into its share of the descriptors,
// and leave some spare.
func TestHTTPBounds(t *testing.T) {
	some := []string{":0"}
	for _, test := range []struct {
		cfg                settings.Config
		limit, each        int
		conns, small, open int
	}{
		{settings.Config{HTTP: settings.HTTP{Listen: some}}, 1 << 30, 4, maxConns, service.SmallFiles, web.DefaultMaxOpen},
		{settings.Config{HTTP: settings.HTTP{Listen: some}}, 1024, 4, 261, 112, 130},
		{settings.Config{HTTP: settings.HTTP{Listen: some}}, 1024, 5, 261, 112, 104},
		{settings.Config{HTTP: settings.HTTP{Listen: some, ListenTLS: some}}, 1024, 4, 130, 112, 131},
		{settings.Config{HTTP: settings.HTTP{Listen: some}, TFTP: settings.TFTP{Listen: some}}, 1024, 4, 112, 48, 56},
		// TestServeDescriptors in cmd/haul uses the same figures.
		{settings.Config{HTTP: settings.HTTP{Listen: some, ListenTLS: some}, TFTP: settings.TFTP{Listen: some}}, 400, 4, 14, 12, 15},
		{settings.Config{HTTP: settings.HTTP{Listen: some}}, 8, 4, 1, 0, 1},
	} {
		conns, small, open := bounds(&test.cfg, test.limit, test.each)
		if conns != test.conns || small != test.small || open != test.open {
			t.Errorf("%d descriptors: %d connections a port, %d small files and %d requests, want %d, %d and %d", test.limit, conns, small, open, test.conns, test.small, test.open)
		}
	}
}

// If users have directories of their own, a request also holds the directory of its user open.
// There are enough descriptors for that.
func TestRootsTakeDescriptors(t *testing.T) {
	const limit = 1024
	roots, err := userroots.Open(t.TempDir(), nil, userroots.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer roots.Close()
	for root, open := range map[string]int{".": 130, "a": 104} {
		dir, err := users.New(users.User{Name: "a", Root: root})
		if err != nil {
			t.Fatal(err)
		}
		s := &Service{
			cfg: &settings.Config{HTTP: settings.HTTP{Listen: []string{":0"}}}, env: &service.Env{Log: slog.New(slog.DiscardHandler)},
			handler: &web.Handler{}, roots: roots, sessions: &logins.Sessions{Users: dir}, log: new(log),
		}
		if s.fitDescriptors(limit); s.handler.MaxOpen != open {
			t.Errorf("root %s: %d requests, want %d", root, s.handler.MaxOpen, open)
		}
		if want := fmt.Sprintf("limit %d allows %d requests", limit, open); !strings.Contains(s.log.fewFiles, want) {
			t.Errorf("root %s: the log would say %q", root, s.log.fewFiles)
		}
	}
}

// docs/http.md lists the bounds of net/http's servers, and they are set.
func TestDocumentedHTTPBounds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	var p port
	p.open(http.NotFoundHandler(), io.Discard)
	defer p.close()
	for _, s := range []*http.Server{&p.http1, &p.http2} {
		for _, want := range []string{
			fmt.Sprintf("| head of a request, in `haul serve` | %d KiB, %d seconds |", s.MaxHeaderBytes>>10, s.ReadHeaderTimeout/time.Second),
			fmt.Sprintf("| silence between requests, in `haul serve` | %d minutes |", s.IdleTimeout/time.Minute),
			fmt.Sprintf("| requests at a time on a connection of HTTP/2, in `haul serve` | %d |", s.HTTP2.MaxConcurrentStreams),
			fmt.Sprintf("| connections, in `haul serve` | %d,%03d a port", maxConns/1000, maxConns%1000),
			fmt.Sprintf("| memory of a connection of HTTP/2 whose client reads slowly, in `haul serve` | %d KiB, and 128 KiB for each request; the former %d MiB for all connections together |", writebehind.MaxBuffered>>10, writebehind.MaxTotal>>20),
			fmt.Sprintf("| files of up to 16 KiB that stay open for the next reader, for 2 seconds, in `haul serve` | %d, or an eighth", service.SmallFiles),
			fmt.Sprintf("| upload, in `haul serve`, of users too | %d GiB (`--max-upload`) |", tftp.Defaults().MaxUpload>>30),
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("docs/http.md does not say %q", want)
			}
		}
	}
}

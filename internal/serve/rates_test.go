package serve

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/serve/servetest"
)

// The rate for one address over HTTP reaches the handler: see TestRatePerSource there.
func TestHTTPRatePerSource(t *testing.T) {
	t.Parallel() // it waits most of the time
	const rate = 1 << 20
	dir := t.TempDir()
	servetest.WriteFile(t, filepath.Join(dir, "f"), strings.Repeat("x", rate/2))
	cfg := Default()
	cfg.Dirs, cfg.HTTP.Listen, cfg.HTTP.RatePerSource = []string{dir}, []string{":0"}, rate
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	s, err := cfg.openHTTP(nil, nil, slog.New(slog.DiscardHandler), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	began := time.Now()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/f", nil))
	if w.Code != http.StatusOK || w.Body.Len() != rate/2 {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("half a second's bytes took %v", took)
	}
}

// The limits of TFTP reach its server.
func TestTFTPBandwidth(t *testing.T) {
	cfg := Default()
	cfg.Dirs, cfg.TFTP.Bandwidth, cfg.TFTP.BandwidthPerClient = []string{t.TempDir()}, mostRate, leastRate
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	if s := cfg.server(); s.Bandwidth != mostRate || s.BandwidthPerClient != leastRate {
		t.Errorf("%d and %d bytes a second", s.Bandwidth, s.BandwidthPerClient)
	}
}

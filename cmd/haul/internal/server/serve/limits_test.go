package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/server/userroots"
	"github.com/haul-project/haul/cmd/haul/internal/server/writebehind"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

func TestFitDescriptors(t *testing.T) {
	for _, test := range []struct {
		asked, limit int
		upload       site.Policy
		want         int
		logged       bool
	}{
		{16384, 1 << 30, site.UploadNone, 0, false},
		{16384, 20000, site.UploadNone, 0, false},
		{16384, 20000, site.UploadCreate, 9936, false}, // the default, and enough for most
		{20000, 20000, site.UploadCreate, 9936, true},
		{16384, 1024, site.UploadNone, 896, true},
		{16384, 200, site.UploadNone, 100, true},
		{16384, 1, site.UploadCreate, 1, true},
		{10, 1024, site.UploadCreate, 0, false},
	} {
		var out bytes.Buffer
		cfg := Config{Files: Files{Upload: test.upload}}
		srv := &tftp.Config{MaxTransfers: test.asked, Log: slog.New(slog.NewTextHandler(&out, nil))}
		cfg.fitDescriptors(srv, test.limit)
		if srv.MaxTransfers != test.asked || srv.MaxFiles != test.want || test.logged != strings.Contains(out.String(), "ulimit") {
			t.Errorf("%+v: %d transfers, %d files, %s", test, srv.MaxTransfers, srv.MaxFiles, out.String())
		}
	}
}

// The connections of HTTP, and the files of their requests, have room in the share of
// the descriptors that it has, with something to spare.
func TestHTTPBounds(t *testing.T) {
	some := []string{":0"}
	for _, test := range []struct {
		f                  Config
		limit, each        int
		conns, small, open int
	}{
		{Config{HTTP: HTTP{Listen: some}}, 1 << 30, 4, mostHTTPConns, smallFiles, web.DefaultMaxOpen},
		{Config{HTTP: HTTP{Listen: some}}, 1024, 4, 261, 112, 130},
		{Config{HTTP: HTTP{Listen: some}}, 1024, 5, 261, 112, 104},
		{Config{HTTP: HTTP{Listen: some, ListenTLS: some}}, 1024, 4, 130, 112, 131},
		{Config{HTTP: HTTP{Listen: some}, TFTP: TFTP{Listen: some}}, 1024, 4, 112, 48, 56},
		{Config{HTTP: HTTP{Listen: some, ListenTLS: some}, TFTP: TFTP{Listen: some}}, 400, 4, 14, 12, 15}, // as in cmd/haul, TestServeDescriptors
		{Config{HTTP: HTTP{Listen: some}}, 8, 4, 1, 0, 1},
	} {
		conns, small, open := test.f.httpBounds(test.limit, test.each)
		if conns != test.conns || small != test.small || open != test.open {
			t.Errorf("%d descriptors: %d connections a port, %d small files and %d requests, want %d, %d and %d", test.limit, conns, small, open, test.conns, test.small, test.open)
		}
	}
}

// Where users have directories of their own, each connection of SFTP, and each request
// of HTTP, may hold another one, and there are descriptors for these as well.
func TestRootsTakeDescriptors(t *testing.T) {
	const limit = 1024
	served := t.TempDir()
	for _, test := range []struct {
		what, text  string
		conns, open int
	}{
		{"all have DIR", "user a\n  root .\nuser b\nuser c\n  root " + served + "\n", 224, 130},
		{"one below DIR", "user a\nuser b\n  root b\n", 179, 104},
		{"one elsewhere", "user a\n  root " + t.TempDir() + "\n", 179, 104},
		{"each their own", "root %u\nuser a\nuser b\n", 179, 104},
		{"of one who may not come", "user a\nuser b\n  disabled\n  root b\n", 224, 130},
	} {
		file := filepath.Join(t.TempDir(), "users")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		dir, err := users.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		roots, err := userroots.Open(served, nil, userroots.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer roots.Close()
		s := &sftpService{
			srv: &sftp.Server{MaxConns: 1000}, roots: roots, sessions: &userSessions{dir: dir},
			log: newSFTPLog(slog.New(slog.DiscardHandler), nil),
		}
		s.fitDescriptors(limit)
		s.log.Close()
		if s.srv.MaxConns != test.conns {
			t.Errorf("%s: %d connections of SFTP, want %d", test.what, s.srv.MaxConns, test.conns)
		}
		h := &httpService{
			cfg: &Config{HTTP: HTTP{Listen: []string{":0"}}}, handler: &web.Handler{}, roots: roots, sessions: &userSessions{dir: dir},
			log: new(httpLog), logger: slog.New(slog.DiscardHandler),
		}
		if h.fitDescriptors(limit); h.handler.MaxOpen != test.open {
			t.Errorf("%s: %d requests of HTTP, want %d", test.what, h.handler.MaxOpen, test.open)
		}
		if want := fmt.Sprintf("limit %d allows %d requests", limit, test.open); !strings.Contains(h.log.fewFiles, want) {
			t.Errorf("%s: the log would say %q", test.what, h.log.fewFiles)
		}
	}
}

// Files uploaded to a separate directory must not be served from another one.
func TestUploadDirApart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"served/in/x", "other/x", "client/in/x"} {
		servetest.WriteFile(t, filepath.Join(dir, name), "x")
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, test := range []struct {
		args []string
		ok   bool
	}{
		{[]string{at("served"), "--upload-dir", at("other")}, true},
		{[]string{at("served"), "--upload-dir", at("served")}, false},
		{[]string{at("served"), "--upload-dir", at("served/in")}, false},
		{[]string{at("served/in"), "--upload-dir", at("served")}, false},
		{[]string{at("other"), at("served"), "--upload-dir", at("served/in")}, false},
		{[]string{at("served"), "--upload-dir", at("client/in"), "--root", at("client")}, false},
		{[]string{at("served"), "--upload-dir", at("other") + "/../served/in"}, false},
	} {
		cfg := Config{}
		for i, a := range test.args {
			switch {
			case i > 0 && test.args[i-1] == "--upload-dir":
				cfg.Files.UploadDir = a
			case i > 0 && test.args[i-1] == "--root":
				cfg.Files.Roots = []Root{{Dir: a}}
			case !strings.HasPrefix(a, "--"):
				cfg.Dirs = append(cfg.Dirs, a)
			}
		}
		err := cfg.separate()
		if (err == nil) != test.ok || err != nil && !errors.Is(err, failure.Usage) {
			t.Errorf("%v: %v", test.args, err)
		}
	}
}

// The collector gets the limit that docs/tftp.md promises, unless the user has.
func TestBoundHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	cfg := Config{TFTP: TFTP{Listen: []string{":69"}, MaxTransfers: 1000, Memory: 64 << 20}}
	t.Setenv("GOMEMLIMIT", "1TiB")
	cfg.boundHeap()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("a limit of %d bytes in place of the user's", got)
	}
	t.Setenv("GOMEMLIMIT", "")
	cfg.boundHeap()
	want := int64(24<<20+runtime.GOMAXPROCS(0)*20<<20+1000*16<<10) + 64<<20
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
}

// A cache adds its memory, and may double the heap, not more: the blocks in its memory are
// live.
func TestBoundCache(t *testing.T) {
	before, usual := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	defer debug.SetMemoryLimit(before)
	defer debug.SetGCPercent(usual)
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "")
	cfg := Config{HTTP: HTTP{Listen: []string{":80"}}, Cache: source.Caching{Dir: "cache"}}
	cfg.boundHeap()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d percent of garbage, want 100", got)
	}
	if got, want := debug.SetMemoryLimit(-1), int64(24<<20+512<<20+64<<20); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
}

// The memory of SFTP is added to that of TFTP, and there are threads for sessions that all
// wait for a disk.
func TestBoundSFTP(t *testing.T) {
	before, threads := debug.SetMemoryLimit(-1), debug.SetMaxThreads(usualThreads)
	defer debug.SetMemoryLimit(before)
	defer debug.SetMaxThreads(threads)
	usual := debug.SetGCPercent(100)
	defer debug.SetGCPercent(usual)
	t.Setenv("GOMEMLIMIT", "")
	cfg := Config{SFTP: SFTP{Listen: []string{":22"}, MaxConns: 2000}}
	t.Setenv("GOGC", "50")
	cfg.boundHeap()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("%d percent of garbage in place of the user's", got)
	}
	t.Setenv("GOGC", "")
	cfg.boundHeap()
	if got := debug.SetGCPercent(100); got != heapGrowth {
		t.Errorf("%d percent of garbage, want %d", got, heapGrowth)
	}
	want := int64(24<<20 + 2000*96<<10 + 64*3<<20 + runtime.GOMAXPROCS(0)*20<<20)
	if got := debug.SetMemoryLimit(-1); got != want {
		t.Errorf("a limit of %d bytes, want %d", got, want)
	}
	cfg.boundThreads()
	if got := debug.SetMaxThreads(usualThreads); got != 21_000 {
		t.Errorf("a limit of %d threads, want 21000", got)
	}
	cfg.SFTP.MaxConns = 10
	cfg.boundThreads()
	if got := debug.SetMaxThreads(usualThreads); got != usualThreads {
		t.Errorf("a limit of %d threads, want %d", got, usualThreads)
	}
}

// docs/http.md has the bounds of net/http's servers, and those have them.
func TestDocumentedHTTPBounds(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	var p httpPort
	p.open(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	defer p.close()
	for _, s := range []*http.Server{&p.http1, &p.http2} {
		for _, want := range []string{
			fmt.Sprintf("| head of a request, in `haul serve` | %d KiB, %d seconds |", s.MaxHeaderBytes>>10, s.ReadHeaderTimeout/time.Second),
			fmt.Sprintf("| silence between requests, in `haul serve` | %d minutes |", s.IdleTimeout/time.Minute),
			fmt.Sprintf("| requests at a time on a connection of HTTP/2, in `haul serve` | %d |", s.HTTP2.MaxConcurrentStreams),
			fmt.Sprintf("| connections, in `haul serve` | %d,%03d a port", mostHTTPConns/1000, mostHTTPConns%1000),
			fmt.Sprintf("| memory of a connection of HTTP/2 whose client reads slowly, in `haul serve` | %d KiB, and 128 KiB for each request; the former %d MiB for all connections together |", writebehind.MaxBuffered>>10, writebehind.MaxTotal>>20),
			fmt.Sprintf("| files of up to 16 KiB that stay open for the next reader, for 2 seconds, in `haul serve` | %d, or an eighth", smallFiles),
			fmt.Sprintf("| upload, in `haul serve`, of users too | %d GiB (`--max-upload`) |", tftp.Defaults().MaxUpload>>30),
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("docs/http.md does not say %q", want)
			}
		}
	}
}

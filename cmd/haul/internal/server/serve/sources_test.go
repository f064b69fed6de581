//go:build linux

package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// If these are set, the process is a server of upstreams with everything that "haul serve" does.
// They hold the URLs separated by commas, the home directory with the keys, the cache, the time limit
// of a call, and a server to which redirects may lead.
const (
	sourceVar   = "HAUL_TEST_SOURCE"
	homeVar     = "HAUL_TEST_HOME"
	cacheVar    = "HAUL_TEST_CACHE"
	patienceVar = "HAUL_TEST_PATIENCE"
	redirectVar = "HAUL_TEST_REDIRECT"
)

func init() {
	urls := os.Getenv(sourceVar)
	if urls == "" {
		return
	}
	me, err := user.Current()
	if err != nil {
		panic(err)
	}
	account := *me
	account.HomeDir = os.Getenv(homeVar)
	cfg := settings.Default()
	cfg.Dirs = strings.Split(urls, ",")
	cfg.TFTP.Listen, cfg.HTTP.Listen, cfg.Metrics = []string{"127.0.0.1:0"}, []string{"127.0.0.1:0"}, "127.0.0.1:0"
	if len(cfg.Dirs) == 1 {
		cfg.SFTP.Listen, cfg.SFTP.HostKeys, cfg.SFTP.Users = []string{"127.0.0.1:0"}, settings.NoHostKeys, ""
	}
	cfg.HTTP.Listing, cfg.Files.Upload, cfg.Grace = true, site.UploadOverwrite, time.Second
	if cfg.Cache.Dir = os.Getenv(cacheVar); cfg.Cache.Dir != "" {
		cfg.Cache.Size, cfg.Cache.Fresh = 64<<20, 0
	}
	if to := os.Getenv(redirectVar); to != "" {
		cfg.RedirectTo = []string{to}
	}
	s := newServer(cfg, os.Stderr)
	s.env.Sources.Account, s.env.Sources.Patience = &account, 3*time.Second
	if d, err := time.ParseDuration(os.Getenv(patienceVar)); err == nil {
		s.env.Sources.Patience = d
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A sourceServer is a process that serves upstreams.
type sourceServer struct {
	t    *testing.T
	log  *servetest.Buffer
	http string // "http://127.0.0.1:1234"
	tftp netip.AddrPort
	pid  int
}

func startSourceServer(t *testing.T, urls, home, cacheDir string, env ...string) *sourceServer {
	t.Helper()
	s := &sourceServer{t: t, log: new(servetest.Buffer)}
	c := exec.Command("/proc/self/exe")
	c.Env = append(append(os.Environ(), sourceVar+"="+urls, homeVar+"="+home, cacheVar+"="+cacheDir, "CONFIGURATION_DIRECTORY="+t.TempDir()), env...)
	c.Stderr = s.log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil || t.Failed() {
			t.Errorf("the server ended: %v\n%s", err, s.log)
		}
	})
	servetest.Eventually(t, "it serves", func() bool { return strings.Contains(s.log.String(), "everybody may read") || len(ended) > 0 })
	s.pid = c.Process.Pid
	s.http = "http://" + s.word(` on http://(\S+)`)
	s.tftp = netip.MustParseAddrPort(s.word(` on tftp://(\S+)`))
	return s
}

// word returns the part of the log that matches the parenthesized part of an expression.
func (s *sourceServer) word(expr string) string {
	s.t.Helper()
	m := regexp.MustCompile(expr).FindStringSubmatch(s.log.String())
	if m == nil {
		s.t.Fatalf("there is no %s in the log:\n%s", expr, s.log)
	}
	return m[1]
}

// ask sends a request over HTTP.
func (s *sourceServer) ask(method, name, body string, fields ...string) (*http.Response, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.http+name, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a, string(text)
}

func (s *sourceServer) want(method, name, body string, status int, content string, fields ...string) *http.Response {
	s.t.Helper()
	a, got := s.ask(method, name, body, fields...)
	if a.StatusCode != status || content != "*" && got != content {
		s.t.Errorf("%s %s: %s with %.100q, want %d with %.100q", method, name, a.Status, got, status, content)
	}
	return a
}

// fetch gets a file over TFTP.
func (s *sourceServer) fetch(name string) (string, error) {
	file := filepath.Join(s.t.TempDir(), "file")
	c := &tftpclient.Client{Timeout: 5 * time.Second}
	if _, err := c.GetFile(s.t.Context(), fmt.Sprintf("tftp://%v/%s", s.tftp, name), file); err != nil {
		return "", err
	}
	b, err := os.ReadFile(file)
	return string(b), err
}

// exercise does what clients do, by all protocols, with an upstream whose files are in dir.
func (s *sourceServer) exercise(dir string) {
	s.t.Helper()
	large := strings.Repeat("0123456789", 100_000)
	servetest.WriteFile(s.t, filepath.Join(dir, "boot/kernel"), large)
	servetest.WriteFile(s.t, filepath.Join(dir, ".hidden"), "secret")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "boot/kernel"), past, past); err != nil {
		s.t.Fatal(err)
	}
	a := s.want("GET", "/boot/kernel", "", 200, large)
	tag, modified := a.Header.Get("Etag"), a.Header.Get("Last-Modified")
	if tag == "" || modified == "" {
		s.t.Errorf("validators %q and %q", tag, modified)
	}
	s.want("GET", "/boot/kernel", "", 206, "56789", "Range", "bytes=5-9")
	s.want("GET", "/boot/kernel", "", 416, "*", "Range", "bytes=1000000-")
	s.want("GET", "/boot/kernel", "", 304, "", "If-None-Match", tag)
	s.want("GET", "/boot/kernel", "", 304, "", "If-Modified-Since", modified)
	s.want("GET", "/missing", "", 404, "*")
	s.want("GET", "/.hidden", "", 404, "*")
	if _, list := s.ask("GET", "/boot/?list", "", "Accept", "application/json"); !strings.Contains(list, `"kernel"`) || !strings.Contains(list, "1000000") {
		s.t.Errorf("the listing is %s", list)
	}
	if got, err := s.fetch("boot/kernel"); err != nil || got != large {
		s.t.Errorf("over TFTP %d bytes came, %v", len(got), err)
	}
	if _, err := s.fetch("missing"); err == nil || !strings.Contains(err.Error(), "not found") {
		s.t.Errorf("missing over TFTP: %v", err)
	}
	s.want("PUT", "/new", "by HTTP", 201, "*")
	servetest.WantFile(s.t, filepath.Join(dir, "new"), "by HTTP")
	s.want("GET", "/new", "", 200, "by HTTP")
	if _, err := (&tftpclient.Client{}).Put(s.t.Context(), tftpclient.Target{Host: s.tftp.Addr().String(), Port: s.tftp.Port(), Name: "sent"}, strings.NewReader("by TFTP"), 7); err != nil {
		s.t.Error(err)
	}
	servetest.WantFile(s.t, filepath.Join(dir, "sent"), "by TFTP")
	s.overSFTP(dir)
}

// login logs in over SFTP, until the test ends.
func (s *sourceServer) login() *sftpclient.Client {
	s.t.Helper()
	login := &ssh.ClientConfig{
		User: users.OneTimeUser, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Auth: []ssh.AuthMethod{ssh.Password(s.word(`with the password (\S+)`))},
	}
	c, err := sftpclient.Dial(s.t.Context(), s.word(` on sftp://(\S+)`), login, sftpclient.Config{})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// overSFTP does what a user does after logging in.
func (s *sourceServer) overSFTP(dir string) {
	s.t.Helper()
	files := s.login().Store("")
	ctx := s.t.Context()
	f, err := files.Open(ctx, "boot/kernel")
	if err != nil {
		s.t.Fatal(err)
	}
	part := make([]byte, 5)
	if _, err := f.ReadAt(part, 999_995); err != nil && err != io.EOF || string(part) != "56789" {
		s.t.Errorf("over SFTP %q, %v", part, err)
	}
	_ = f.Close()
	if entries, err := files.ReadDir(ctx, "boot"); err != nil || len(entries) != 1 || entries[0].Name() != "kernel" {
		s.t.Errorf("the listing over SFTP has %v, %v", entries, err)
	}
	u, err := files.Create(ctx, "put", store.Create{})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = u.WriteAt([]byte("by SFTP"), 0)
	_ = u.Close()
	if err != nil {
		s.t.Error(err)
	}
}

// A confined server serves the files of another machine by all protocols. When that machine is
// gone, the server logs it, and when it is back, it serves again.
func TestServeSFTPSource(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := servetest.NewSFTPHost(t, sftp.Account{Tree: localdir.New(root), Access: users.Full, Hidden: true})
	s := startSourceServer(t, "sftp://nas/", h.Home, "")
	s.exercise(dir)

	h.Stop()
	overTFTP := make(chan error, 1)
	go func() {
		_, err := s.fetch("boot/kernel")
		overTFTP <- err
	}()
	s.want("GET", "/boot/kernel", "", http.StatusBadGateway, "*")
	if err := <-overTFTP; err == nil || !strings.Contains(err.Error(), "cannot reach its files") {
		t.Errorf("over TFTP, while the source is away: %v", err)
	}
	servetest.Eventually(t, "the log says that the source cannot be reached", func() bool { return strings.Contains(s.log.String(), "source: cannot be reached") })
	h.Start()
	s.want("GET", "/new", "", 200, "by HTTP")
	if got, err := s.fetch("new"); err != nil || got != "by HTTP" {
		t.Errorf("over TFTP, once the source is back: %q, %v", got, err)
	}
}

// This is the same with a web server that requires a password, behind a cache. A directory of this
// machine that is searched first is served whatever happens to the upstream.
func TestServeWebSource(t *testing.T) {
	dir, local, home := t.TempDir(), t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := &web.Handler{Listing: true, Account: func(context.Context, web.Visitor) (*web.Account, error) {
		return &web.Account{Store: localdir.New(root), Access: web.AccessOverwrite}, nil
	}}
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "sesame" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	}))
	defer source.Close()
	if err := os.WriteFile(filepath.Join(home, ".netrc"), []byte("machine localhost login boot password sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NETRC", "")
	url := strings.Replace(source.URL, "127.0.0.1", "localhost", 1)
	s := startSourceServer(t, url, home, filepath.Join(t.TempDir(), "cache"))
	s.exercise(dir)
	if _, metrics := s.at(s.word(`metrics at (\S+)`)); !strings.Contains(metrics, "haul_cache_fetched_bytes_total") || !strings.Contains(metrics, "haul_sources_away 0") {
		t.Errorf("the metrics are %s", metrics)
	}

	servetest.WriteFile(t, filepath.Join(local, "here"), "on this machine")
	both := startSourceServer(t, local+","+url, home, "")
	both.want("GET", "/new", "", 200, "by HTTP")
	source.Close()
	both.want("GET", "/here", "", 200, "on this machine")
	if got, err := both.fetch("here"); err != nil || got != "on this machine" {
		t.Errorf("over TFTP %q, %v", got, err)
	}
	if strings.Contains(s.log.String()+both.log.String(), "sesame") {
		t.Error("the password is in the log")
	}
}

// If an upstream redirects to another server, the log says so, and which setting would allow it; the
// client is not informed. With that setting the redirect is followed, although the process is confined.
func TestServeRedirectedSource(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "elsewhere") }))
	defer target.Close()
	source := httptest.NewServer(http.RedirectHandler(target.URL+"/kernel?token=sesame", http.StatusFound))
	defer source.Close()
	host := strings.TrimPrefix(target.URL, "http://")
	s := startSourceServer(t, source.URL, t.TempDir(), filepath.Join(t.TempDir(), "cache"))
	s.want("GET", "/kernel", "", http.StatusInternalServerError, "*")
	servetest.Eventually(t, "the log says why", func() bool { return strings.Contains(s.log.String(), "source: a request has failed") })
	if to := s.word(`redirects to another server, \S+; if .* add --redirect-to ([^\s"]+)`); to != host {
		t.Errorf("the log names %s, want %s", to, host)
	}
	if strings.Contains(s.log.String(), "sesame") || strings.Contains(s.log.String(), "source: cannot be reached") {
		t.Error("the log has the query, or that the source is away")
	}
	startSourceServer(t, source.URL, t.TempDir(), "", redirectVar+"="+host).want("GET", "/kernel", "", 200, "elsewhere")
}

// at requests a URL.
func (s *sourceServer) at(url string) (int, string) {
	s.t.Helper()
	a, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/cache"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// openDir opens a directory as a store.
func openDir(t *testing.T, dir string) *localdir.Dir {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return localdir.New(root)
}

// open opens a source with the keys of a home directory, and a buffer as its log. Unless the test
// sets a limit, calls may take longer than on a slow machine.
func open(t *testing.T, url, home string, options ...any) (*Source, *servetest.Buffer) {
	t.Helper()
	cfg := Config{wait: servetest.Patience}
	for _, o := range options {
		switch o := o.(type) {
		case time.Duration:
			cfg.wait = o
		case *cache.Cache:
			cfg.Cache = o
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	account := *me
	account.HomeDir = home
	log := new(servetest.Buffer)
	cfg.Account = &account
	cfg.Say = func(level slog.Level, text string, attrs ...slog.Attr) { fmt.Fprintln(log, level, text, attrs) }
	s, err := Open(t.Context(), url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, log
}

// overSFTP serves a store by SFTP, and returns it as a source.
func overSFTP(t *testing.T, files store.Tree) (*Source, *servetest.SFTPHost, *servetest.Buffer) {
	t.Helper()
	h := servetest.NewSFTPHost(t, sftp.Account{Tree: files, Access: users.Full, Hidden: true})
	s, log := open(t, "sftp://nas/", h.Home)
	return s, h, log
}

func webHandler(files store.Store) *web.Handler {
	return &web.Handler{Listing: true, Account: func(context.Context, web.Visitor) (*web.Account, error) {
		return &web.Account{Store: files, Access: web.AccessOverwrite}, nil
	}}
}

// webServer serves a store by HTTP.
func webServer(t *testing.T, files store.Store) *httptest.Server {
	s := httptest.NewServer(webHandler(files))
	t.Cleanup(s.Close)
	return s
}

func content(t *testing.T, s store.Store, name string) string {
	t.Helper()
	f, err := s.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, 0, fi.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A misspelled URL is a usage error before anything is opened. The error shows no password.
func TestCheck(t *testing.T) {
	for text, want := range map[string]string{
		"https://mirror.example/boot/":   "",
		"http://mirror.example:8080":     "",
		"sftp://backup@nas:2022/srv":     "",
		"ftp://mirror.example/boot/":     "https://HOST/DIR/",
		"tftp://192.0.2.1/boot":          "https://HOST/DIR/",
		"https:///boot":                  "no host",
		"https://nas:99999/":             "port",
		"sftp://nas/a?b":                 "%3F",
		"https://me:sesame@nas/":         "netrc",
		"sftp://me:sesame@nas/boot":      "a key",
		"https://mirror.example/d?tok=1": "",
	} {
		err := Check(text)
		if want == "" && err != nil || want != "" && (!errors.Is(err, failure.Usage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sesame")) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Open(t.Context(), "https://mirror.example/d?tok=1", Config{Say: func(slog.Level, string, ...slog.Attr) {}}); !errors.Is(err, failure.Usage) || strings.Contains(err.Error(), "tok") {
		t.Errorf("with a query: %v", err)
	}
	for text, remote := range map[string]bool{"/srv/boot": false, "a:b": false, "./https://x": false, "HTTPS://x/": true, "s3://b": true} {
		if IsRemote(text) != remote {
			t.Errorf("IsRemote(%q) is %v", text, !remote)
		}
	}
}

// The setting takes HOST and HOST:PORT, and nothing else.
func TestCheckRedirects(t *testing.T) {
	for name, want := range map[string]string{
		"CDN.example": "cdn.example:80 cdn.example:443", "cdn.example:8080": "cdn.example:8080", "10.0.0.1": "10.0.0.1:80 10.0.0.1:443", "[::1]:81": "[::1]:81", "[::1]": "[::1]:80 [::1]:443",
		"": "", "*": "", "*.example": "", "https://cdn.example": "", "cdn.example/": "", "cdn.example:": "", "cdn.example:0": "", "cdn.example:65536": "", "cdn.example:x": "",
		"a b": "", "me@cdn.example": "", "cdn.example?q": "", "cdn.example#f": "", ":80": "", "::1": "",
	} {
		all, err := redirects([]string{name})
		if got := strings.Join(all, " "); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", name, got, err)
		}
		if err := CheckRedirects([]string{name}, true); (err == nil) != (want != "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckRedirects([]string{"cdn.example"}, false); err == nil || CheckRedirects(nil, false) != nil {
		t.Errorf("without a web server: %v", err)
	}
}

// A web server redirects only to the servers that a setting names, at their ports. Each file counts
// by itself: the source is not away.
func TestRedirects(t *testing.T) {
	files := store.Mem(0)
	storetest.Put(t, files, "f", "content")
	other := webServer(t, files)
	s := httptest.NewServer(http.RedirectHandler(other.URL+"/f", http.StatusFound))
	defer s.Close()
	host := strings.TrimPrefix(other.URL, "http://")
	for names, want := range map[string]bool{"": false, host: true, "127.0.0.1": false, "localhost" + host[strings.Index(host, ":"):]: false} {
		var log servetest.Buffer
		var all []string
		if names != "" {
			all = []string{names}
		}
		one, err := Open(t.Context(), s.URL, Config{wait: servetest.Patience, Redirects: all, Say: func(_ slog.Level, text string, attrs ...slog.Attr) { fmt.Fprintln(&log, text, attrs) }})
		if err != nil {
			t.Fatal(err)
		}
		f, err := one.Open(t.Context(), "kernel")
		if err == nil {
			f.Close()
		} else if !strings.Contains(log.String(), "--redirect-to "+host) || one.Stats().Away || errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%q: %v; the log has %q", names, err, log.String())
		}
		if (err == nil) != want {
			t.Errorf("%q: %v", names, err)
		}
		one.Close()
	}
}

// A source over SFTP is a store like any other.
func TestSFTPIsStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store {
		s, _, _ := overSFTP(t, store.Mem(0))
		return s
	})
}

// A web server can list, read and write. Everything else is refused by name.
func TestWeb(t *testing.T) {
	dir := t.TempDir()
	servetest.WriteFile(t, filepath.Join(dir, "boot/kernel"), "the kernel")
	s, _ := open(t, webServer(t, openDir(t, dir)).URL+"/boot", t.TempDir())
	ctx := t.Context()
	if got := content(t, s, "kernel"); got != "the kernel" {
		t.Errorf("it has %q", got)
	}
	storetest.Put(t, s, "new", "content")
	servetest.WantFile(t, filepath.Join(dir, "boot/new"), "content")
	entries, err := s.ReadDir(ctx, ".")
	if err != nil || len(entries) != 2 || entries[0].Name() != "kernel" {
		t.Errorf("entries %v, %v", entries, err)
	}
	if _, err := s.Open(ctx, "missing"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("missing: %v", err)
	}
	for what, err := range map[string]error{
		"rename":               s.Rename(ctx, "kernel", "x", false),
		"link":                 s.Link(ctx, "kernel", "x"),
		"symbolic link":        s.Symlink(ctx, "kernel", "x"),
		"make directories":     s.Mkdir(ctx, "d", 0),
		"remove directories":   s.RemoveDir(ctx, "d"),
		"times or permissions": s.SetAttr(ctx, "kernel", store.Attr{ModTime: time.Now()}, true),
	} {
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Remove(ctx, "new"); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if n := s.Stats(); n.Calls == 0 || n.Away || n.Failures != 0 || n.Read != uint64(len("the kernel")) {
		t.Errorf("%+v", n)
	}
}

// Two servers with the same URL share nothing in a cache, even if their files have the same name,
// size and version.
func TestCacheOfEndpoint(t *testing.T) {
	c, err := cache.Open(cache.Config{Dir: filepath.Join(t.TempDir(), "cache"), Size: cache.MinSize, Fresh: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	read := func(url, home string) string {
		t.Helper()
		s, _ := open(t, url, home, c)
		return content(t, s, "kernel")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, text := range []string{"first", "other"} {
		bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"one"`)
			http.ServeContent(w, r, "", past, strings.NewReader(text))
		}))
		defer bucket.Close()
		t.Setenv("AWS_ENDPOINT_URL", bucket.URL)
		if got := read("s3://images/boot", t.TempDir()); got != text {
			t.Errorf("of the %s bucket comes %q", text, got)
		}
		files := store.Mem(0)
		storetest.Put(t, files, "kernel", text)
		if err := files.SetAttr(t.Context(), "kernel", store.Attr{ModTime: past}, false); err != nil {
			t.Fatal(err)
		}
		h := servetest.NewSFTPHost(t, sftp.Account{Tree: files, Access: users.Full})
		if got := read("sftp://nas/", h.Home); got != text {
			t.Errorf("of the %s SFTP server comes %q", text, got)
		}
	}
	if n := c.Stats().Objects; n != 4 {
		t.Errorf("the cache has %d objects, want 4", n)
	}
}

// If a cache's directory cannot be used, the error gives advice.
func TestCacheAdvice(t *testing.T) {
	for err, words := range map[error]string{fs.ErrPermission: "may write", syscall.ENOSPC: "make room", io.EOF: ""} {
		if got := adviseCache(&fs.PathError{Op: "open", Path: "f", Err: err}); !errors.Is(got, err) || !strings.Contains(got.Error(), words) {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// A cache's directory that another user owns is refused, because what that user puts there would
// reach clients.
func TestCacheOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 4711, -1); err != nil {
		t.Fatal(err)
	}
	var s Set
	if err := s.openCache(Caching{Dir: dir, Size: cache.MinSize}, nil, false, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "user 4711") {
		t.Errorf("%v, want an error about the owner", err)
	}
	s.Close()
}

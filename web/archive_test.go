package web_test

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// unpack returns the permissions, time and content of each entry of an archive, by name.
func unpack(t *testing.T, kind, body string) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name string, info fs.FileInfo, r io.Reader) {
		content, err := io.ReadAll(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, twice := all[name]; twice || strings.HasPrefix(name, "/") || strings.Contains("/"+name, "/../") {
			t.Errorf("%s is there twice, or leads out", name)
		}
		all[name] = fmt.Sprintf("%v %s %s", info.Mode(), info.ModTime().UTC().Format(time.DateTime), content)
	}
	if kind == "tar" {
		for r := tar.NewReader(strings.NewReader(body)); ; {
			h, err := r.Next()
			if err == io.EOF {
				return all
			}
			if err != nil {
				t.Fatal(err)
			}
			add(h.Name, h.FileInfo(), r)
		}
	}
	z, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		add(f.Name, f.FileInfo(), r)
		r.Close()
	}
	return all
}

// A directory is served as tar or zip, with permissions and times, under its name.
func TestArchive(t *testing.T) {
	files := map[string]string{
		"lab/kernel": "image", "lab/sub/inner": strings.Repeat("x", 70_000), "lab/sub/deep/empty": "", "lab/" + strings.Repeat("long", 50): "l",
		"lab/ünï & \"co\"": "u", "lab/new\nline": "n", "lab/-rf": "m", "other/x": "x",
	}
	st := mem(t, files)
	for _, dir := range []string{"lab", "lab/sub", "lab/sub/deep"} {
		touch(t, st, dir, old)
	}
	mode := fs.FileMode(0o755)
	if err := st.SetAttr(t.Context(), "lab/kernel", store.Attr{Mode: &mode}, true); err != nil {
		t.Fatal(err)
	}
	touch(t, st, "lab/-rf", time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))
	h := &web.Handler{Store: st, Listing: true, Index: "kernel"}
	for kind, mediaType := range map[string]string{"tar": "application/x-tar", "zip": "application/zip"} {
		a := ask(t, h, "GET /lab/?archive="+kind, "", "Range: bytes=0-1", `If-None-Match: *`)
		a.want(t, 200, "*")
		a.wantField(t, "Content-Type", mediaType)
		a.wantField(t, "Content-Disposition", `attachment; filename="lab.`+kind+`"`)
		a.wantField(t, "Etag", "")
		got := unpack(t, kind, a.body)
		want := map[string]string{"lab/": "", "lab/sub/": "", "lab/sub/deep/": ""}
		for name, content := range files {
			if strings.HasPrefix(name, "lab/") {
				want[name] = content
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d entries, want %d", kind, len(got), len(want))
		}
		for name, content := range want {
			perm, at := "-rw-r--r--", "2026-01-02 03:04:05"
			switch {
			case strings.HasSuffix(name, "/"):
				perm = "drwxr-xr-x"
			case name == "lab/kernel":
				perm = "-rwxr-xr-x"
			case name == "lab/-rf":
				at = map[string]string{"tar": "1970-01-01 00:00:00", "zip": "1980-01-01 00:00:00"}[kind]
			}
			if got[name] != perm+" "+at+" "+content {
				t.Errorf("%s: %q is %.80q, want %s %s %.40q", kind, name, got[name], perm, at, content)
			}
		}
		head := ask(t, h, "HEAD /lab/?archive="+kind, "")
		head.want(t, 200, "")
		head.wantField(t, "Content-Disposition", `attachment; filename="lab.`+kind+`"`)
		if all := unpack(t, kind, ask(t, h, "GET /?archive="+kind, "").body); len(all) != len(want)+3 || all["files/other/x"] == "" {
			t.Errorf("all as %s: %d entries", kind, len(all))
		}
	}
	ask(t, h, "GET /lab?archive=tar", "").wantField(t, "Location", "lab/?archive=tar")
	for request, status := range map[string]int{
		"GET /lab/?archive=rar": 400, "GET /lab/?archive=tar%00": 400, "GET /none/?archive=tar": 404, "HEAD /none/?archive=tar": 404, "GET /lab/kernel/?archive=tar": 404, "POST /lab/?archive=tar": 405,
	} {
		ask(t, h, request, "").want(t, status, "*")
	}
	ask(t, h, "GET /lab/kernel?archive=tar", "").want(t, 200, "image")
	ask(t, &web.Handler{Store: st}, "GET /lab/?archive=tar", "").want(t, 404, "*")
	ask(t, &web.Handler{Store: st, Listing: true, Access: web.AccessUploadOnly}, "GET /lab/?archive=tar", "").want(t, 403, "*")
	if body := ask(t, h, "GET /lab/?list", "").body; !strings.Contains(body, `<button name="archive" value="zip">`) {
		t.Error("the page does not offer it")
	}
}

// A browser saves an archive under a name that is valid on every system.
func TestArchiveNames(t *testing.T) {
	for name, want := range map[string]string{
		`a "b";c`: `filename="a__b_;c.tar"; filename*=UTF-8''a%20%22b%22%3Bc.tar`, "ü\n": `filename="___.tar"; filename*=UTF-8''%C3%BC%0A.tar`, ".x": `filename=".x.tar"`, "a:b": `filename="a_b.tar"; filename*=UTF-8''a%3Ab.tar`,
	} {
		h := &web.Handler{Store: mem(t, map[string]string{name + "/x": "x"}), Listing: true}
		target := "/" + strings.NewReplacer(" ", "%20", `"`, "%22", "\n", "%0A").Replace(name) + "/?archive=tar"
		ask(t, h, "HEAD "+target, "").wantField(t, "Content-Disposition", "attachment; "+want)
	}
	ask(t, &web.Handler{Store: mem(t, nil), Listing: true}, "HEAD /?archive=zip", "").wantField(t, "Content-Disposition", `attachment; filename="files.zip"`)
}

// An archive contains the entries of the listings. A link is archived as its target, unless it
// leads out of the store or back to a directory above; devices are left out. So are files that the
// client may not read, and a file that is replaced by a link meanwhile.
func TestArchiveOfOddFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links, and names that Windows does not have")
	}
	st, path := dir(t, map[string]string{"d/file": "x", "d/sub/f": "x", "d/replaced": "x", `d/back\slash`: "x", "d/.haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part": "x", "out/secret": "x", "d/\xff": "x"})
	for link, to := range map[string]string{"tofile": "file", "todir": "sub", "dangling": "none", "outside": "/etc/passwd", "up": "..", "loop": "loop", "sub/self": ".", "sub/top": "../..", "aside": "../out"} {
		if err := os.Symlink(to, filepath.Join(path, "d", link)); err != nil {
			t.Fatal(err)
		}
	}
	h := &web.Handler{Store: hidden{st}, Listing: true}
	for _, kind := range []string{"tar", "zip"} {
		var names []string
		for name, what := range unpack(t, kind, ask(t, h, "GET /d/?archive="+kind, "").body) {
			if strings.HasPrefix(what, "L") {
				t.Errorf("%s is a link", name)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		if got, want := strings.Join(names, " "), "d/ d/aside/ d/file d/sub/ d/sub/f d/todir/ d/todir/f d/tofile d/\xff"; got != want {
			t.Errorf("%s has %q, want %q", kind, got, want)
		}
	}
}

// hidden is a store that refuses to open secret files, and files that were replaced by a link.
type hidden struct{ store.Tree }

func (h hidden) Open(ctx context.Context, name string) (store.File, error) {
	if strings.HasSuffix(name, "/secret") {
		return nil, fs.ErrPermission
	}
	if strings.HasSuffix(name, "/replaced") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return h.Tree.Open(ctx, name)
}

// spoiled is a store with a file that cannot be read to its end, or is shorter than its declared
// size.
type spoiled struct {
	store.Tree
	err error
}

func (s spoiled) Open(ctx context.Context, name string) (store.File, error) {
	f, err := s.Tree.Open(ctx, name)
	if err == nil && strings.HasSuffix(name, "/m") {
		f = spoiledFile{f, s.err}
	}
	return f, err
}

type spoiledFile struct {
	store.File
	err error
}

func (f spoiledFile) ReadAt(p []byte, off int64) (int, error) {
	if off > 0 {
		return 0, f.err
	}
	n, _ := f.File.ReadAt(p[:min(len(p), 1000)], off)
	return n, f.err
}

// If an archive cannot be completed, the connection is closed, and the archive is not well-formed.
func TestArchiveBroken(t *testing.T) {
	st := mem(t, map[string]string{"d/a": strings.Repeat("a", 300_001), "d/m": strings.Repeat("m", 200_000), "d/z": "zzz"})
	for _, kind := range []string{"tar", "zip"} {
		for _, err := range []error{io.EOF, errors.New("the disk fails")} {
			h := &web.Handler{Store: spoiled{st, err}, Listing: true}
			all := ended(h)
			s := serve(t, h)
			resp, reqErr := s.Client().Get(s.URL + "/d/?archive=" + kind)
			if reqErr != nil {
				t.Fatal(reqErr)
			}
			body, readErr := io.ReadAll(resp.Body)
			resp.Body.Close()
			if x := <-all; readErr == nil || !errors.Is(x.Err, err) && !errors.Is(x.Err, web.ErrShrunk) {
				t.Errorf("%s: the client reads %v, and the server reports %v", kind, readErr, x.Err)
			}
			if _, zipErr := zip.NewReader(strings.NewReader(string(body)), int64(len(body))); kind == "zip" && zipErr == nil {
				t.Error("the zip is well-formed")
			}
			if kind == "tar" && strings.HasSuffix(string(body), strings.Repeat("\x00", 1024)) {
				t.Error("the tar has its end")
			}
		}
	}
}

// hardNames are the most difficult names that a file may have.
var hardNames = []string{
	"new\nline", "a\r\nContent-Type: x", "\x01\x1b[31m", `"quotes" & 'apostrophes'`, "<script>alert(1)<", "-rf", " space ", "tab\t",
	"con", "c:", "\xff\xfe", "caf\xe9", "bidi\u202e", "ü", "\u2028", "=1+2", "a=b", strings.Repeat("x", 255), strings.Repeat("ü", 127), strings.Repeat("\xff", 255),
}

// An archive contains any name unchanged, at any depth, and no name has a special meaning.
func TestArchiveOfHardNames(t *testing.T) {
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 255)+"/", 15), "/")
	files := map[string]string{"d/<" + "/script><script>alert(1)<" + "/script>": "x", "d/" + deep: "deep"}
	for _, name := range hardNames {
		files["d/"+name] = name
		files["d/dir"+name[:len(name)/2]+"/"+name] = name
	}
	h := &web.Handler{Store: mem(t, files), Listing: true}
	for _, kind := range []string{"tar", "zip"} {
		got := unpack(t, kind, ask(t, h, "GET /d/?archive="+kind, "").body)
		for name, content := range files {
			if !strings.HasSuffix(got[name], " "+content) {
				t.Errorf("%s: %.80q has %.80q", kind, name, got[name])
			}
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if _, ok := got[dir+"/"]; !ok {
					t.Errorf("%s lacks %.80q/", kind, dir)
				}
			}
		}
	}
	for dir, want := range map[string]string{"/d/%3C/": "script><script>alert(1)<", "/d/%3C/script%3E%3Cscript%3Ealert(1)%3C/": ""} {
		a := ask(t, h, "GET "+dir, "")
		a.wantField(t, "Content-Security-Policy", policyFor(t, a.body))
		if strings.Contains(a.body, "<script>alert") || !strings.Contains(a.body, html.EscapeString(want)) {
			t.Errorf("%s: a name is more than a name: %s", dir, a.body)
		}
	}
}

// A file that grows while it is archived keeps its original length in the archive.
func TestArchiveOfGrowingFile(t *testing.T) {
	const size = 200_000
	for _, kind := range []string{"tar", "zip"} {
		st, path := dir(t, map[string]string{"d/a": "a", "d/grows": strings.Repeat("g", size), "d/z": "z"})
		h := &web.Handler{Store: growing{st, filepath.Join(path, "d/grows")}, Listing: true}
		got := unpack(t, kind, ask(t, h, "GET /d/?archive="+kind, "").body)
		for name, content := range map[string]string{"d/a": "a", "d/grows": strings.Repeat("g", size), "d/z": "z"} {
			if !strings.HasSuffix(got[name], " "+content) {
				t.Errorf("%s: %s is %.60q of %d bytes", kind, name, got[name], len(got[name]))
			}
		}
		if fi, err := os.Stat(filepath.Join(path, "d/grows")); err != nil || fi.Size() <= size {
			t.Errorf("the file has not grown: %v", err)
		}
	}
}

// growing is a store with a file that grows whenever it is read.
type growing struct {
	store.Tree
	path string
}

func (g growing) Open(ctx context.Context, name string) (store.File, error) {
	f, err := g.Tree.Open(ctx, name)
	if err == nil && strings.HasSuffix(name, "/grows") {
		f = growingFile{f, g.path}
	}
	return f, err
}

type growingFile struct {
	store.File
	path string
}

func (g growingFile) ReadAt(p []byte, off int64) (int, error) {
	f, err := os.OpenFile(g.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(strings.Repeat("n", 10_000))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return g.File.ReadAt(p, off)
}

// A directory of 100,000 files is archived whole.
func TestArchiveOfLargeDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	n := race.Fewer(100_000, 10)
	h := &web.Handler{Store: flat{crowd{n: n}}, Listing: true}
	for _, kind := range []string{"tar", "zip"} {
		if got := unpack(t, kind, ask(t, h, "GET /?archive="+kind, "").body); len(got) != n+1 {
			t.Errorf("%s has %d entries", kind, len(got))
		}
	}
}

// A client that receives nothing of an archive is disconnected.
func TestArchiveStalled(t *testing.T) {
	for _, kind := range []string{"tar", "zip"} {
		// This is more data than fits into the socket buffers.
		h := &web.Handler{Store: flat{crowd{n: 200_000}}, Listing: true, Stall: 50 * time.Millisecond}
		all := ended(h)
		c, err := net.Dial("tcp", serve(t, h).Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET /?archive=%s HTTP/1.1\r\nHost: x\r\n\r\n", kind); err != nil {
			t.Fatal(err)
		}
		if x := <-all; !errors.Is(x.Err, os.ErrDeadlineExceeded) || x.Status != 200 {
			t.Errorf("%s: ended with %d, %v", kind, x.Status, x.Err)
		}
		ask(t, h, "GET /?json", "").want(t, 200, "*") // the archive has released its entries
	}
}

// maze is a store with endless directories.
type maze struct {
	store.Store
	files int
}

func (m maze) Stat(context.Context, string) (fs.FileInfo, error) { return mazeDir{}, nil }

func (m maze) Open(context.Context, string) (store.File, error) { return nil, fs.ErrNotExist }

func (m maze) Capabilities() store.Capabilities { return store.Capabilities{OpenDir: m.OpenDir} }

func (m maze) OpenDir(context.Context, string) (store.Entries, error) {
	return &mazeEntries{crowdEntries{m.files}, true}, nil
}

type mazeEntries struct {
	crowdEntries
	dir bool
}

func (m *mazeEntries) Next(into []fs.FileInfo) (int, error) {
	if m.dir {
		m.dir = false
		into[0] = mazeDir{}
		return 1, nil
	}
	return m.crowdEntries.Next(into)
}

type mazeDir struct{ crowdInfo }

func (mazeDir) Name() string      { return "dir" }
func (mazeDir) IsDir() bool       { return true }
func (mazeDir) Mode() fs.FileMode { return fs.ModeDir | 0o755 }

// The depth of an archive and its entries in memory are bounded. All entries are released at its
// end.
func TestArchiveBounds(t *testing.T) {
	for _, kind := range []string{"tar", "zip"} {
		h := &web.Handler{Store: maze{files: 100}, Listing: true}
		all := ended(h)
		ask(t, h, "GET /d/?archive="+kind, "")
		if x := <-all; x.Err == nil || !strings.Contains(x.Err.Error(), "too deep") {
			t.Errorf("%s: %v", kind, x.Err)
		}
	}
	h := &web.Handler{Store: flat{crowd{n: web.MaxListing + 1}}, Listing: true}
	ask(t, h, "GET /?archive=tar", "").want(t, http.StatusInsufficientStorage, "the directory has too many entries to be listed\n")
	h = &web.Handler{Store: flat{crowd{n: web.MaxListing}}, Listing: true}
	all := ended(h)
	// A zip keeps its entries in memory until it is complete.
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/?archive=zip", nil)
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(&discard{header: http.Header{}}, r)
	}()
	if x := <-all; x.Err == nil || !strings.Contains(x.Err.Error(), "too many large directories") {
		t.Errorf("a zip of %d entries: %v", web.MaxListing, x.Err)
	}
	ask(t, h, "GET /?json", "").want(t, 200, "*")
}

// flat is a crowd whose files are empty and can be opened.
type flat struct{ crowd }

func (f flat) Stat(context.Context, string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

func (f flat) Open(_ context.Context, name string) (store.File, error) {
	return emptyFile{crowdInfo(name)}, nil
}

type emptyFile struct{ crowdInfo }

func (e emptyFile) Stat() (fs.FileInfo, error)        { return emptyInfo(e), nil }
func (e emptyFile) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }
func (e emptyFile) Close() error                      { return nil }

type emptyInfo struct{ crowdInfo }

func (emptyInfo) Size() int64 { return 0 }

// The walk stops when the client leaves, and rate limits apply to archives.
func TestArchiveClientGone(t *testing.T) {
	h := &web.Handler{Store: flat{crowd{n: 100_000}}, Listing: true, Rate: 1 << 20}
	all := ended(h)
	s := serve(t, h)
	began := time.Now()
	resp, err := s.Client().Get(s.URL + "/?archive=tar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("1 MiB at 1 MiB/s has come in %v", took)
	}
	resp.Body.Close()
	select {
	case x := <-all:
		if x.Err == nil || x.Sent() > 40<<20 {
			t.Errorf("it was sent to the end: %d bytes, %v", x.Sent(), x.Err)
		}
	case <-time.After(patience):
		t.Error("the walk does not end")
	}
}

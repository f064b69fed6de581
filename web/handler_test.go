package web_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/web"
)

func TestGet(t *testing.T) {
	files := map[string]string{"kernel": "image", "sub/a b.txt": "text", "empty": "", "large": string(pattern(3 << 20))}
	disk, _ := dir(t, files)
	for name, st := range map[string]store.Store{"Dir": disk, "Mem": mem(t, files)} {
		t.Run(name, func(t *testing.T) {
			h := &web.Handler{Store: st, Precompressed: true}
			for file, content := range files {
				target := (&url.URL{Path: "/" + file}).String()
				a := ask(t, h, "GET "+target, "")
				a.want(t, http.StatusOK, content)
				a.wantField(t, "Content-Length", fmt.Sprint(len(content)))
				a.wantField(t, "Accept-Ranges", "bytes")
				a.wantField(t, "X-Content-Type-Options", "nosniff")
				a.wantField(t, "Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
				a.wantField(t, "Vary", "Accept-Encoding")
				head := ask(t, h, "HEAD "+target, "")
				head.want(t, http.StatusOK, "")
				// A tag may have become strong between the two requests.
				got, want := strings.ReplaceAll(fmt.Sprint(head.header), "W/", ""), strings.ReplaceAll(fmt.Sprint(a.header), "W/", "")
				if got != want {
					t.Errorf("HEAD says %s, GET %s", got, want)
				}
			}
			ask(t, h, "GET /missing", "").want(t, http.StatusNotFound, "there is no such file\n")
			ask(t, h, "HEAD /missing", "").want(t, http.StatusNotFound, "")
			ask(t, h, "GET /kernel/", "").want(t, http.StatusNotFound, "*")
			ask(t, h, "GET /kernel/sub", "").want(t, http.StatusNotFound, "*")
			// Without Listing, directories show nothing.
			for _, d := range []string{"/", "/sub", "/sub/"} {
				ask(t, h, "GET "+d, "").want(t, http.StatusNotFound, "*")
			}
		})
	}
}

// A path with two slashes in a row is redirected to the path with one, wherever the handler is
// mounted, and never to another server. Requests that would change something are refused.
func TestDoubleSlashes(t *testing.T) {
	st := mem(t, map[string]string{"a/b/c": "inside", "a/x:y": "colon", "f": "root"})
	h := &web.Handler{Store: st, Access: web.AccessFull, Listing: true}
	for _, s := range []struct{ url, prefix string }{{serve(t, h).URL, ""}, {serve(t, http.StripPrefix("/below", h)).URL, "/below"}} {
		for target, want := range map[string]string{
			"//f": "/f", "///f": "/f", "/a//b/c": "/a/b/c", "/a/b//c": "/a/b/c", "//a///b//c": "/a/b/c", "/a//b//": "/a/b/",
			"//": "/", "///": "/", "//a//": "/a/", "/a//x:y": "/a/x:y", "//f?x=//y": "/f?x=//y", "//a//x%3Ay": "/a/x:y",
		} {
			resp, err := http.Get(s.url + s.prefix + target)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			got := strings.TrimPrefix(resp.Request.URL.String(), s.url)
			if resp.StatusCode != 200 || got != s.prefix+want {
				t.Errorf("%s%s: %d at %s, want %s", s.prefix, target, resp.StatusCode, got, s.prefix+want)
			}
		}
	}
	ask(t, h, "PUT //new", "x").want(t, 400, "*")
	ask(t, h, "DELETE /a//b/c", "").want(t, 400, "*")
	// No redirect leads to another server.
	for _, target := range []string{"//other.example/f", "///other.example//f"} {
		a := ask(t, h, "GET /x"+target, "")
		if to := a.header.Get("Location"); a.status != 301 || !strings.HasPrefix(to, "../") {
			t.Errorf("%s: %d to %q", target, a.status, to)
		}
	}
}

// shim requests the loader beside itself by a path with two slashes, and follows no redirects.
func TestDoubleSlashBeforeLoader(t *testing.T) {
	h := &web.Handler{Store: mem(t, map[string]string{"grubx64.efi": "root", "efi/GRUBX64.EFI": "inside", "efi/x.cfg": "no loader"}), Access: web.AccessFull}
	ask(t, h, "GET //grubx64.efi", "").want(t, 200, "root")
	ask(t, h, "HEAD //grubx64.efi", "").want(t, 200, "")
	ask(t, h, "GET /efi//GRUBX64.EFI", "").want(t, 200, "inside")
	for _, target := range []string{"//efi//GRUBX64.EFI", "//efi/GRUBX64.EFI", "///grubx64.efi", "/efi//x.cfg", "//grubx64.efi/"} {
		ask(t, h, "GET "+target, "").want(t, 301, "*")
	}
	for _, target := range []string{"/efi/..//grubx64.efi", "/.//grubx64.efi", "//..%2fgrubx64.efi", `//\grubx64.efi`} {
		ask(t, h, "GET "+target, "").want(t, 400, "*")
	}
	ask(t, h, "PUT //new.efi", "x").want(t, 400, "*")
	ask(t, h, "DELETE //grubx64.efi", "").want(t, 400, "*")
}

// No way of writing an invalid name, or a name that leads out of the store, is accepted.
func TestPathTricks(t *testing.T) {
	_, path := dir(t, map[string]string{"root/etc/passwd": "ours", "root/a/b": "inside", "root/.hidden": "dot", "secret": "SECRET"})
	root, err := os.OpenRoot(filepath.Join(path, "root"))
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if runtime.GOOS != "windows" {
		for link, to := range map[string]string{"out": "../secret", "abs": filepath.Join(path, "secret"), "updir": "..", "in": "a/b"} {
			if err := os.Symlink(to, filepath.Join(path, "root", link)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := serve(t, &web.Handler{Store: localdir.New(root), Listing: true})
	bad, missing := http.StatusBadRequest, http.StatusNotFound
	tests := []struct {
		target string
		status int
		body   string // a string that the answer must contain
	}{
		{"/a/b", 200, "inside"},
		{"//a//b", 301, "two slashes"},
		{"/a/./b", bad, ". or .."},
		{"/./a/b", bad, ". or .."},
		{"/.", bad, ". or .."},
		{"/a/%2e/b", bad, ". or .."},
		{"/a//../b", bad, ". or .."},
		{`/a\b`, bad, "backslash"},
		{"/a%5Cb", bad, "backslash"},
		{"/a%5cb", bad, "backslash"},
		{"/%61/%62", 200, "inside"},
		{"/a/b?x=/../secret", 200, "inside"},
		{"/etc/passwd", 200, "ours"},
		{"//etc/passwd", 301, "two slashes"},
		{"http://other.example/a/b", 200, "inside"}, // absolute-form: RFC 9112 §3.2.2
		{"http://other.example", 200, `id="list"`},
		{"/../secret", bad, ".."},
		{"/a/../../secret", bad, ".."},
		{"/a/../a/b", bad, ".."}, // refused, not resolved
		{"/..", bad, ".."},
		{"/a/..", bad, ".."},
		{"/%2e%2e/secret", bad, ".."},
		{"/%2E%2E/secret", bad, ".."},
		{"/.%2e/secret", bad, ".."},
		{`/..\secret`, bad, "backslash"},
		{`/a\..\..\secret`, bad, "backslash"},
		{"/..%5csecret", bad, "backslash"},
		{"/a%2fb", bad, "%2F"},
		{"/a%2Fb", bad, "%2F"},
		{"/..%2fsecret", bad, "%2F"},
		{"/%2e%2e%2fsecret", bad, "%2F"},
		{"/%252e%252e/secret", missing, ""}, // decoded only once
		{"/..;/secret", missing, ""},
		{"/.../secret", missing, ""},
		{"/a/b%00", bad, "NUL"},
		{"/%00", bad, "NUL"},
		{"/a/b%00.html", bad, "NUL"},
		{"/%ff%fe", missing, ""},
		{"/%c0%ae%c0%ae/secret", missing, ""}, // an overlong encoding of ".." is not ".."
		{"/%", bad, ""},                       // from net/http itself
		{"/%zz", bad, ""},
		{"/" + strings.Repeat("x", 300), bad, ""}, // longer than any file's name
		{"/" + strings.Repeat("x/", 2048), 414, ""},
		{"/" + strings.Repeat("x", 100_000), 414, ""},
		{"*", bad, ""},
		{"secret", bad, ""},
		{"/a/b/", missing, ""},
		{"/a/b/.", bad, ". or .."},
		{"/.hidden", 200, "dot"},
		{"/.haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part", missing, ""},
	}
	if runtime.GOOS != "windows" {
		tests = append(tests, []struct {
			target string
			status int
			body   string
		}{
			{"/in", 200, "inside"},
			{"/out", 403, "not allowed"},
			{"/abs", 403, "not allowed"},
			{"/updir/secret", 403, "not allowed"},
			{"/updir/", 403, "not allowed"},
		}...)
	}
	for _, test := range tests {
		for _, method := range []string{"GET", "HEAD"} {
			status, header, body := raw(t, s.Listener.Addr().String(), method+" "+test.target+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			name := method + " " + clip(test.target)
			if status != test.status {
				t.Errorf("%s: %d %q, want %d", name, status, clip(body), test.status)
			}
			if method == "GET" && !strings.Contains(body, test.body) {
				t.Errorf("%s: %q lacks %q", name, clip(body), test.body)
			}
			for _, leak := range []string{"SECRET", path, "openat", "statat"} {
				if strings.Contains(body+header, leak) {
					t.Errorf("%s: the answer has %q in it: %s%s", name, leak, header, clip(body))
				}
			}
		}
	}
}

// raw sends a request unchanged, and returns the answer: status, header, and body.
func raw(t testing.TB, addr, request string) (status int, header, body string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	header, body, _ = strings.Cut(string(b), "\r\n\r\n")
	if _, err := fmt.Sscanf(header, "HTTP/1.%d %d", new(int), &status); err != nil {
		t.Fatalf("the answer is %q", clip(string(b)))
	}
	return status, header, body
}

// An HTTP/1.0 client gets a file with its length, and no chunks.
func TestHTTP10(t *testing.T) {
	body := string(pattern(100_000))
	st, _ := dir(t, map[string]string{"f": body})
	s := serve(t, &web.Handler{Store: st, Listing: true})
	addr := s.Listener.Addr().String()
	for _, target := range []string{"/f", "/"} {
		status, header, got := raw(t, addr, "GET "+target+" HTTP/1.0\r\n\r\n")
		if status != 200 || strings.Contains(header, "Transfer-Encoding") {
			t.Errorf("%s: %s", target, header)
		}
		if target == "/f" && (got != body || !strings.Contains(header, "Content-Length: 100000\r\n")) {
			t.Errorf("%s\ngot %d bytes", header, len(got))
		}
	}
	_, header, got := raw(t, addr, "GET /f HTTP/1.0\r\nRange: bytes=10-19\r\n\r\n")
	if got != body[10:20] || !strings.Contains(header, "Content-Range: bytes 10-19/100000") {
		t.Errorf("%s\n%q", header, got)
	}
}

func TestMethods(t *testing.T) {
	allowed := map[web.Access]string{
		web.AccessRead:       "GET, HEAD, OPTIONS",
		web.AccessCreate:     "GET, HEAD, PUT, OPTIONS",
		web.AccessOverwrite:  "GET, HEAD, PUT, OPTIONS",
		web.AccessFull:       "GET, HEAD, PUT, DELETE, OPTIONS",
		web.AccessUploadOnly: "PUT, OPTIONS",
	}
	for access, allow := range allowed {
		h := &web.Handler{Store: mem(t, map[string]string{"f": "content"}), Access: access}
		for _, target := range []string{"/f", "*"} {
			a := ask(t, h, "OPTIONS "+target, "")
			a.want(t, http.StatusNoContent, "")
			a.wantField(t, "Allow", allow)
		}
		texts := map[string]string{"PUT": "uploads are not allowed here\n", "DELETE": "files cannot be removed here\n"}
		for _, method := range []string{"POST", "PATCH", "DELETE", "PUT", "TRACE", "CONNECT", "MKCOL", "NONSENSE"} {
			if strings.Contains(allow, method) {
				continue
			}
			a := ask(t, h, method+" /f", "body")
			a.want(t, http.StatusMethodNotAllowed, cmp.Or(texts[method], "the method is not allowed here\n"))
			a.wantField(t, "Allow", allow)
		}
		if access == web.AccessUploadOnly {
			ask(t, h, "GET /f", "").want(t, http.StatusForbidden, "*")
			ask(t, h, "HEAD /f", "").want(t, http.StatusForbidden, "")
		}
		if got := content(t, h.Store, "f"); got != "content" {
			t.Errorf("the file is %q", got)
		}
	}
}

// A brokenStore fails with the given error.
type brokenStore struct {
	store.Store
	err error
}

func (b brokenStore) Open(_ context.Context, name string) (store.File, error) {
	return nil, &fs.PathError{Op: "open", Path: "/srv/secret/" + name, Err: b.err}
}

func (b brokenStore) Create(_ context.Context, name string, _ store.Create) (store.Upload, error) {
	return nil, &fs.PathError{Op: "create", Path: "/srv/secret/" + name, Err: b.err}
}

func (b brokenStore) Stat(context.Context, string) (fs.FileInfo, error) { return nil, fs.ErrNotExist }

// Each kind of error has its own status, and none reveals where the files are.
func TestErrors(t *testing.T) {
	tests := []struct {
		err      error
		get, put int
	}{
		{fs.ErrNotExist, 404, 409},
		{fs.ErrPermission, 403, 403},
		{fs.ErrInvalid, 400, 400},
		{fs.ErrExist, 409, 409},
		{store.ErrNotRegular, 403, 409},
		{store.ErrNoSpace, 507, 507},
		{store.ErrBusy, 423, 423},
		{store.ErrUnsettled, 503, 503},
		{errors.ErrUnsupported, 501, 501},
		{syscall.ELOOP, 404, 404},
		{syscall.EFBIG, 413, 413},
		{syscall.EMFILE, 503, 503},
		{syscall.ENFILE, 503, 503},
		{syscall.EIO, 500, 500},
		{context.Canceled, 503, 503},
		{errors.New("open /srv/secret/f: strange"), 500, 500},
	}
	for _, test := range tests {
		h := &web.Handler{Store: brokenStore{err: test.err}, Access: web.AccessOverwrite}
		told := ended(h)
		for request, status := range map[string]int{"GET /f": test.get, "PUT /f": test.put} {
			a := ask(t, h, request, "body")
			if a.status != status || strings.Contains(a.body, "srv") || len(a.body) > 100 {
				t.Errorf("%v: %s: %d %q, want %d", test.err, request, a.status, a.body, status)
			}
			if x := <-told; !errors.Is(x.Err, test.err) || x.Status != status {
				t.Errorf("%v: %s: reported %d, %v", test.err, request, x.Status, x.Err)
			}
			if test.err == store.ErrUnsettled {
				a.wantField(t, "Retry-After", "2")
			}
		}
	}
}

// A handler without a Store or an Account serves nothing.
func TestNoAccount(t *testing.T) {
	ask(t, &web.Handler{}, "GET /f", "").want(t, http.StatusInternalServerError, "*")
}

func TestAccount(t *testing.T) {
	closed := 0
	var visitors []web.Visitor
	h := &web.Handler{Account: func(_ context.Context, v web.Visitor) (*web.Account, error) {
		visitors = append(visitors, v)
		if len(visitors) > 1 {
			return nil, fs.ErrPermission
		}
		return &web.Account{Store: mem(t, map[string]string{"f": "mine"}), Close: func() { closed++ }}, nil
	}}
	ask(t, h, "GET /f", "").want(t, http.StatusOK, "mine")
	ask(t, h, "GET /f", "").want(t, http.StatusForbidden, "*")
	if closed != 1 || visitors[0].Peer.String() != "192.0.2.1" || visitors[0].Login != nil {
		t.Errorf("closed %d times; visitors: %+v", closed, visitors)
	}
}

func TestTypes(t *testing.T) {
	names := map[string]string{
		"BOOTX64.EFI": "application/octet-stream", "bootx64.efi": "application/octet-stream",
		"debian.iso": "application/octet-stream", "disk.img": "application/octet-stream",
		"vmlinuz": "application/octet-stream", "vmlinuz-6.18.0-generic": "application/octet-stream",
		"initrd.img-6.1": "application/octet-stream", "initrd": "application/octet-stream",
		"index.html": "text/html; charset=utf-8", "x.TXT": "text/plain; charset=utf-8", "boot.ipxe": "text/plain; charset=utf-8",
		"a.json": "application/json", "a.tar.gz": "application/gzip", "noext": "application/octet-stream",
		".html": "text/html; charset=utf-8", "page.html.bak": "application/octet-stream", "own.x": "application/x-own",
	}
	files := map[string]string{}
	for name := range names {
		files[name] = "<html><script>alert(1)</script>" // content sniffing would take it for HTML
	}
	h := &web.Handler{Store: mem(t, files), Types: map[string]string{".x": "application/x-own"}}
	for name, want := range names {
		a := ask(t, h, "GET /"+name, "")
		a.want(t, 200, files[name])
		a.wantField(t, "Content-Type", want)
	}
}

func TestDirectories(t *testing.T) {
	st := mem(t, map[string]string{"sub/index.html": "<p>index", "sub/f": "x", "bare/f": "x", "a:b/index.html": "x"})
	h := &web.Handler{Store: st, Index: "index.html"}
	a := ask(t, h, "GET /sub/", "")
	a.want(t, 200, "<p>index")
	a.wantField(t, "Content-Type", "text/html; charset=utf-8")
	// The answer does not reveal whether the directory exists.
	for _, target := range []string{"/bare/", "/none/"} {
		ask(t, h, "GET "+target, "").want(t, 404, "there is no such page, and directories are not listed here\n")
	}
	for _, target := range []string{"/bare", "/none"} {
		ask(t, h, "GET "+target, "").want(t, 404, "there is no such file\n")
	}
	// With listings too, the index takes precedence, unless the client wants the entries.
	both := &web.Handler{Store: st, Index: "index.html", Listing: true}
	a = ask(t, both, "GET /sub/", "")
	a.want(t, 200, "<p>index")
	a.wantField(t, "Vary", "Accept")
	for _, list := range []string{"/sub/?list", "/sub/?json", "/sub/?sort=size", "/bare/"} {
		a = ask(t, both, "GET "+list, "")
		a.want(t, 200, "*")
		a.wantField(t, "Vary", "Accept")
		if a.body == "<p>index" || !strings.Contains(a.body, ">f<") && !strings.Contains(a.body, `"f"`) {
			t.Errorf("%s: %s", list, a.body)
		}
	}
	ask(t, both, "GET /sub/", "", "Accept: application/json").wantField(t, "Content-Type", "application/json")
	ask(t, h, "GET /sub/?list", "").want(t, 200, "<p>index") // because there is no listing
	for target, location := range map[string]string{
		"/sub": "sub/", "/sub?x=1": "sub/?x=1", "/a:b": "./a:b/", "//bare": "../bare", "/sub/.": "",
	} {
		a := ask(t, h, "GET "+target, "")
		a.wantField(t, "Location", location)
		if location != "" {
			a.want(t, http.StatusMovedPermanently, "*")
		}
	}
	// No path redirects to another server.
	mounted := http.StripPrefix("/files", h)
	s := serve(t, mounted)
	resp, err := s.Client().Get(s.URL + "/files/sub")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); string(b) != "<p>index" || resp.Request.URL.Path != "/files/sub/" {
		t.Errorf("%s: %q", resp.Request.URL, b)
	}
	_, header, _ := raw(t, serve(t, h).Listener.Addr().String(), "GET //evil.example/..;/sub HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if strings.Contains(header, "Location: //") {
		t.Error(header)
	}
}

func TestExchange(t *testing.T) {
	h := &web.Handler{Store: mem(t, map[string]string{"f": "0123456789"}), Access: web.AccessOverwrite}
	var started []string
	h.Started = func(x *web.Exchange) { started = append(started, x.Method+" "+x.Name); x.Value = "mine" }
	told := ended(h)
	check := func(want *web.Exchange, sent, received int64) {
		t.Helper()
		x := <-told
		if x.Method != want.Method || x.Name != want.Name || x.Status != want.Status || x.Range != want.Range ||
			x.Size != want.Size || x.Agent != want.Agent || x.Value != want.Value || x.Proto != "HTTP/1.1" || (x.Err != nil) != (want.Err != nil) ||
			x.Sent() != sent || x.Received() != received || x.Began.IsZero() || x.Duration < 0 || x.Peer.Addr().String() != "192.0.2.1" {
			t.Errorf("reported %+v, sent %d, received %d; want %+v, %d, %d", x, x.Sent(), x.Received(), want, sent, received)
		}
	}
	ask(t, h, "GET /f", "", "Range: bytes=2-4", "User-Agent: "+strings.Repeat("a", 1000))
	check(&web.Exchange{Method: "GET", Name: "/f", Status: 206, Range: "bytes=2-4", Size: 10, Agent: strings.Repeat("a", 200), Value: "mine"}, 3, 0)
	ask(t, h, "HEAD /f", "")
	check(&web.Exchange{Method: "HEAD", Name: "/f", Status: 200, Size: 10}, 0, 0)
	ask(t, h, "PUT /sub/g", "new")
	check(&web.Exchange{Method: "PUT", Name: "/sub/g", Status: 201, Size: 3, Value: "mine"}, 0, 3)
	ask(t, h, "GET /missing", "")
	check(&web.Exchange{Method: "GET", Name: "/missing", Status: 404, Size: -1, Err: fs.ErrNotExist}, 0, 0)
	ask(t, h, "GET /../"+strings.Repeat("x", 1000), "")
	check(&web.Exchange{Method: "GET", Name: "/../" + strings.Repeat("x", 196), Status: 400, Size: -1, Err: fs.ErrInvalid}, 0, 0)
	if got := strings.Join(started, ", "); got != "GET /f, PUT /sub/g" {
		t.Errorf("started: %s", got)
	}
	want := web.Counters{Requests: 5, Refused: 2, Sent: 3, Received: 3}
	if got := h.Counters(); got != want {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

// A name that begins with a dot is refused, and the answer gives the reason.
func TestHiddenUpload(t *testing.T) {
	h := &web.Handler{Store: store.Visible(store.Mem(0)), Access: web.AccessCreate}
	ask(t, h, "PUT /.f", "x").want(t, http.StatusForbidden, "names that begin with a dot are not served\n")
}

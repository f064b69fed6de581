package webclient

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/store/treecopy"
)

// htmlListings holds the pages by which different servers list the same directory, /t/: a file "a
// b&c.txt", a file "ü" and a directory "sub".
var htmlListings = map[string]string{
	"Apache, fancy": `<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">
<html><head><title>Index of /t</title></head><body>
<h1>Index of /t</h1>
<table>
<tr><th valign="top"><img src="/icons/blank.gif" alt="[ICO]"></th><th><a href="?C=N;O=D">Name</a></th><th><a href="?C=M;O=A">Last modified</a></th><th><a href="?C=S;O=A">Size</a></th></tr>
<tr><th colspan="5"><hr></th></tr>
<tr><td valign="top"><img src="/icons/back.gif" alt="[PARENTDIR]"></td><td><a href="/">Parent Directory</a></td><td>&nbsp;</td><td align="right">  - </td></tr>
<tr><td valign="top"><a href="a%20b&amp;c.txt"><img src="/icons/text.gif" alt="[TXT]"></a></td><td><a href="a%20b&amp;c.txt">a b&amp;c.txt</a></td><td align="right">2026-01-02 03:04  </td><td align="right">  3 </td></tr>
<tr><td valign="top"><img src="/icons/folder.gif" alt="[DIR]"></td><td><a href="sub/">sub/</a></td><td align="right">2026-01-02 03:04  </td><td align="right">  - </td></tr>
<tr><td valign="top"><img src="/icons/unknown.gif" alt="[   ]"></td><td><a href="%c3%bc">&uuml;</a></td><td align="right">2026-01-02 03:04  </td><td align="right">1.2K</td></tr>
<tr><th colspan="5"><hr></th></tr>
</table>
<address>Apache/2.4.62 (Debian) Server at localhost Port 80</address>
</body></html>`,
	"Apache, plain": `<html><head><title>Index of /t</title></head><body><h1>Index of /t</h1>
<ul><li><a href="/"> Parent Directory</a></li>
<li><a href="a%20b&amp;c.txt"> a b&amp;c.txt</a></li>
<li><a href="sub/"> sub/</a></li>
<li><a href="%c3%bc"> ü</a></li>
</ul></body></html>`,
	"nginx": "<html>\r\n<head><title>Index of /t/</title></head>\r\n<body>\r\n<h1>Index of /t/</h1><hr><pre><a href=\"../\">../</a>\r\n" +
		"<a href=\"sub/\">sub/</a>                                               02-Jan-2026 03:04                   -\r\n" +
		"<a href=\"a%20b%26c.txt\">a b&amp;c.txt</a>                                          02-Jan-2026 03:04                   3\r\n" +
		"<a href=\"%C3%BC\">ü</a>                                                  02-Jan-2026 03:04                1234\r\n" +
		"</pre><hr></body>\r\n</html>\r\n",
	"Python": `<!DOCTYPE HTML>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Directory listing for /t/</title>
</head>
<body>
<h1>Directory listing for /t/</h1>
<hr>
<ul>
<li><a href="a%20b%26c.txt">a b&amp;c.txt</a></li>
<li><a href="sub/">sub/</a></li>
<li><a href="%C3%BC">ü</a></li>
</ul>
<hr>
</body>
</html>`,
	"absolute links": `<title>Index of /t/</title><a href="/t/a%20b%26c.txt">x</a><A HREF='HTTP://HOST/t/%C3%BC'>x</A><a href=./sub/>x</a>`,
}

// serveHTML answers a request for a directory with a page.
func serveHTML(l *lab, pages map[string]string) {
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if _, ok := pages[r.URL.Path+"/"]; ok {
			http.Redirect(w, r, r.URL.EscapedPath()+"/", http.StatusMovedPermanently)
			return true
		}
		page, ok := pages[r.URL.Path]
		if ok {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, strings.ReplaceAll(page, "HTTP://HOST", l.URL))
		}
		return ok
	})
}

func TestListHTML(t *testing.T) {
	content := map[string][]byte{"t/a b&c.txt": []byte("aaa"), "t/ü": []byte(strings.Repeat("u", 1234)), "t/sub/deep": []byte("deep")}
	for who, page := range htmlListings {
		t.Run(who, func(t *testing.T) {
			l := startLab(t, content)
			serveHTML(l, map[string]string{"/t/": page, "/t/sub/": `<title>Index of /t/sub/</title><a href="../">..</a><a href="deep">deep</a>`})
			c := l.client(Config{})
			list, err := c.ReadDir(t.Context(), "t")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, fmt.Sprint(e.Name(), " ", e.IsDir()))
			}
			if want := []string{"a b&c.txt false", "sub true", "ü false"}; !slices.Equal(got, want) {
				t.Fatalf("%q, want %q", got, want)
			}
			o := treecopy.Options{Recursive: true, PreserveTimes: true, Unchanged: treecopy.SizeAndTime}
			dir, result, err := copyToDir(t, c, "t", o)
			if err != nil || result.Copied != 3 {
				t.Fatalf("%+v, %v", result, err)
			}
			for name, want := range content {
				b, err := os.ReadFile(dir + "/" + name)
				fi, e := os.Stat(dir + "/" + name)
				if err != nil || e != nil || string(b) != string(want) || !fi.ModTime().Equal(labTime) {
					t.Errorf("%s: %d bytes, %v, %v", name, len(b), err, e)
				}
			}
			// The client requests the sizes and times that a page lacks, so the copy recognizes
			// unchanged files.
			if result, err = copyTo(t, c, "t", dir, o); err != nil || result.Same != 3 {
				t.Errorf("again: %+v, %v", result, err)
			}
		})
	}
}

// Only links to entries of the directory are used.
func TestChildOf(t *testing.T) {
	dir, err := url.Parse("https://h:1/a%20b/d/")
	if err != nil {
		t.Fatal(err)
	}
	for href, want := range map[string]string{
		"x": "x", "x/": "x/", "./x": "x", "x%20y": "x y", " x ": "x", "/a%20b/d/x": "x", "https://h:1/a%20b/d/x/": "x/", "//h:1/a%20b/d/x": "x",
		"./x:y": "x:y", "x%2541": "x%41", ".hidden": ".hidden", "..x": "..x", "x\\y": "x\\y", "%ff": "\xff",

		"": "", ".": "", "./": "", "..": "", "../": "", "../x": "", "/": "", "/x": "", "/a%20b/x": "", "/a%20b/d/": "", "/a%20b/d/../x": "",
		"x/y": "", "x/../y": "", "x//": "", "//x": "", "%2e%2e": "", "%2e%2e/": "", "%2E": "", "%2Fx": "", "x%2Fy": "", "..%2fx": "", "x%00": "",
		"?C=N;O=D": "", "x?y": "", "x?": "", "#x": "", "x#y": "", "http://h:1/a%20b/d/x": "", "https://h/a%20b/d/x": "", "https://h:1.evil/a%20b/d/x": "",
		"https://u@h:1/a%20b/d/x": "", "//evil/a%20b/d/x": "", "javascript:x": "", "mailto:x": "", "file:///x": "", "https:x": "", "https:/x": "", "%zz": "", ":": "",
	} {
		name, isDir, ok := childOf(dir, href)
		if isDir && ok {
			name += "/"
		}
		if !ok {
			name = ""
		}
		if name != want || ok != (want != "") {
			t.Errorf("%q is %q (%v), want %q", href, name, ok, want)
		}
	}
}

// A hostile page cannot make the client write outside the target, and the client requests only the
// valid entries of the page.
func TestHostileHTML(t *testing.T) {
	l := startLab(t, map[string][]byte{"t/good": []byte("good"), "out": []byte("out"), "t/evil": []byte("x")})
	serveHTML(l, map[string]string{"/t/": `<title>Index of /t/</title><base href="/"><a href="../out">out</a><a href="/out">out</a><a href="%2e%2e%2fout">out</a>
		<a href="%2e%2e/">up</a><a href="./">self</a><a href="?x">sort</a><a href="good?x">query</a><a href="http://evil.invalid/t/x">other</a>
		<script><a href="evil"></script><!-- <a href="evil"> --><textarea><a href="evil"></textarea><a href="good">good</a><a href="good">again</a>`})
	dir, result, err := copyToDir(t, l.client(Config{}), "t", treecopy.Options{Recursive: true})
	if err != nil || result.Copied != 1 {
		t.Errorf("%+v, %v", result, err)
	}
	found := map[string]bool{}
	_ = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		found[name] = true
		return err
	})
	if want := []string{".", "t", "t/good"}; !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Errorf("found %v, want %q", found, want)
	}
	for _, r := range l.requests {
		if p := r.URL.Path; p != "/t" && p != "/t/" && p != "/t/good" || r.URL.RawQuery != "" {
			t.Errorf("asked for %s", r.URL)
		}
	}
}

func TestListHTMLRefused(t *testing.T) {
	for text, want := range map[string]error{
		"":                                   errNoListing,
		`<title>Welcome</title><a href="x">`: errNoListing,
		`<a href="x">`:                       errNoListing,
		`<title>My Index of /</title><title>Index of /</title><a href="x">`:                 errNoListing,
		"<title>Index of /</title><a href=\"" + strings.Repeat("x", 2*maxHTMLToken) + "\">": ErrProtocol,
		"<title>Index of /</title><" + strings.Repeat("x", 2*maxHTMLToken):                  ErrProtocol,
	} {
		l := startLab(t, nil)
		serveHTML(l, map[string]string{"/": text})
		_, err := l.client(Config{}).ReadDir(t.Context(), ".")
		wantIs(t, fmt.Sprintf("%.40q", text), err, want)
		if errors.Is(err, ErrLost) {
			t.Errorf("%.40q: %v", text, err) // haul serve would consider the server unavailable
		}
	}
	var many strings.Builder
	many.WriteString("<title>Index of /</title>")
	for i := range maxEntries + 1 {
		fmt.Fprintf(&many, "<a href=%d>", i)
	}
	l := startLab(t, nil)
	serveHTML(l, map[string]string{"/": many.String()})
	_, err := l.client(Config{}).ReadDir(t.Context(), ".")
	wantIs(t, "many", err, ErrProtocol)
}

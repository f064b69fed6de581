package tftp

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// The test requests names that try to lead out of the root, to confuse the log, or to reach entries
// that are not files. Nothing outside the root may be read or changed, and inside it only the
// requested file. No answer reveals the server's paths.
func TestNamesThatLeadOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	watchHeap(t)
	deep := strings.Repeat("x/", 999) + "x"
	tests := []struct {
		name        string
		read, write byte // the code of the ERROR, or taken
	}{
		{"", 4, 4},
		{"/", 2, 2},
		{"////", 2, 2},
		{`\`, 2, 2},
		{".", 2, 2},
		{"./.", 2, 2},
		{"..", 2, 2},
		{"../x", 2, 2},
		{`..\x`, 2, 2},
		{`..\/..\/x`, 2, 2},
		{"/../x", 2, 2},
		{"a/../../x", 2, 2},
		{"dir/../image", 2, 2}, // .. is refused, wherever it leads
		{"dir/..", 2, 2},
		{"missing/../image", 2, 2},
		{strings.Repeat("../", 600) + "etc/passwd", 2, 2},
		{"/etc/passwd", 1, 1},
		{"...", 1, taken},
		{"image", taken, taken},
		{"image/", taken, taken},
		{"./image", taken, taken},
		{"image/x", 1, 1},
		{"image/.", taken, taken},

		// Escapes and other encodings have no special meaning.
		{"%2e%2e/x", 1, 1},
		{"..%2fx", 1, taken},
		{"%2fetc%2fpasswd", 1, taken},
		{"\uff0e\uff0e/x", 1, 1},            // full-width dots
		{"..\u2215x", 1, taken},             // a division slash
		{"\u202egnp.exe", 1, taken},         // right to left
		{"ima\u0301ge", 1, taken},           // a combining accent
		{"\xc0\xae\xc0\xae/x", 1, 1},        // dots in overlong UTF-8
		{"..\xc0\xafx", 1, taken},           // a slash in overlong UTF-8
		{"\xe0\x80\xaf", 1, taken},          // a slash in an even longer form
		{"\xed\xa0\x80", 1, taken},          // half of a surrogate pair
		{"\xff\xfeimage", 1, taken},         // a byte order mark
		{"i\x00m\x00a\x00g\x00e\x00", 4, 4}, // UTF-16: "m" is not a mode
		{"im\xffage", 1, taken},
		{"\x80", 1, taken},

		// Names with control characters, for a log or a terminal.
		{"a\nb", 1, taken},
		{"a\r\nlevel=INFO msg=forged", 1, taken},
		{"\x1b[2J\x1b]0;title\x07", 1, taken},
		{"\u009b31m", 1, taken}, // CSI in one character
		{"a\u2028b\u0085c", 1, taken},
		{"\x01\x02\x7f", 1, taken},
		{`"quoted" key=value`, 1, taken},
		{"%s%n%!d(MISSING)", 1, taken},
		{"$(id)`id`|id;id", 1, taken},
		{"-rf", 1, taken},
		{"~root", 1, taken},

		// Lengths.
		{strings.Repeat("x", 255), 1, taken},
		{strings.Repeat("x", 256), 2, 2},
		{strings.Repeat("x", 1000), 2, 2},
		{strings.Repeat("\u20ac", 85), 1, taken}, // 255 bytes
		{strings.Repeat("\u20ac", 86), 2, 2},
		{deep, taken, taken},
		{strings.Repeat("y/", 999) + "y", 1, 1},
		{strings.Repeat("/", 1000) + "image", taken, taken},
		{strings.Repeat("./", 900) + "image", taken, taken},

		// Names with a special meaning on other systems.
		{"CON", 1, taken},
		{"NUL.txt", 1, taken},
		{"a:b", 1, taken},
		{"image::$DATA", 1, taken},
		{"image.", 1, taken},
		{"image ", 1, taken},
		{"IMAGE", 1, taken},
		{`C:\boot\image`, 1, 1},
		{`C:image`, 1, taken},
		{`\\server\share\x`, 1, 1},
		{`\\?\C:\x`, 1, 1},

		// Names of things that are not files, or of files outside the store.
		{"dir", 2, 2},
		{"pipe", 2, 2},
		{"socket", 2, 2},
		{"to-image", taken, taken},
		{"to-dir/file", taken, taken},
		{"to-dir", 2, 2},
		{"to-nothing", 1, taken},
		{"loop", 2, 2},
		{"loop/x", 2, 2},
		{"ping", 2, 2}, // ping and pong are links to each other
		{"out", 2, 2},
		{"out/secret", 2, 2},
		{"out/missing", 2, 2},
		{"out-relative", 2, 2},
		{"to-out", 2, 2},
		{"to-root", 2, 2},
		{"to-proc/self/environ", 2, 2},
	}
	for _, test := range tests {
		runCase(t, fmt.Sprintf("%.30q", test.name), nil, func(tb *testbed) {
			tb.furnish()
			if test.name == deep {
				writeFile(tb, tb.dir, deep, "deep")
			}
			before := tb.tree()
			if tb.name(test.name, tftptest.RRQ, test.read) {
				tb.bad.Send(tftptest.ErrorPacket(0, "enough"))
			}
			if tb.name(test.name, tftptest.WRQ, test.write) {
				tb.bad.Send(tftptest.Data(1, []byte("new")))
				tb.bad.Want("the last ACK", tftptest.ACK(1))
			}
			changed := 0
			for p, what := range tb.tree() {
				if before[p] != what {
					changed++
				}
			}
			for p := range before {
				if _, err := os.Lstat(p); err != nil {
					tb.Errorf("%s: %v", p, err)
				}
			}
			if most := map[bool]int{true: 1}[test.write == taken]; changed != most {
				tb.Errorf("%d files have changed, want %d", changed, most)
			}
		})
	}
}

// name sends a request with a name, and expects an ERROR or a transfer.
func (tb *testbed) name(name string, request func(string, ...string) []byte, code byte) (ok bool) {
	tb.Helper()
	p := tb.askAgain()
	p.Send(request(name))
	if code != taken {
		tb.wantAnswer(p, fmt.Sprintf("%.60q", name), says(0)[:3])
		if p.Last[3] != code {
			tb.Errorf("%.60q: got %.60q, want ERROR %d", name, p.Last, code)
		}
		return false
	}
	if got := p.News(); got[1] == 5 {
		tb.Errorf("%.60q: got %.60q", name, got)
		return false
	}
	return true
}

// furnish creates the entries that the names of TestNamesThatLeadOut may reach, and links to a
// directory outside.
func (tb *testbed) furnish() {
	tb.Helper()
	outside := tb.outside()
	writeFile(tb, tb.dir, "image", "image")
	writeFile(tb, tb.dir, "dir/file", "file")
	pipe(tb.T, filepath.Join(tb.dir, "pipe"))
	tb.unixSocket("socket")
	link(tb.T, "image", tb.dir, "to-image")
	link(tb.T, "dir", tb.dir, "to-dir")
	link(tb.T, "nothing", tb.dir, "to-nothing")
	link(tb.T, "loop", tb.dir, "loop")
	link(tb.T, "ping", tb.dir, "pong")
	link(tb.T, "pong", tb.dir, "ping")
	link(tb.T, outside, tb.dir, "out")
	link(tb.T, filepath.Join("..", filepath.Base(outside), "secret"), tb.dir, "out-relative")
	link(tb.T, "out/secret", tb.dir, "to-out")
	link(tb.T, "/", tb.dir, "to-root")
	link(tb.T, "/proc", tb.dir, "to-proc")
}

// unixSocket creates a socket in the root. Its path may be too long for bind, so it is created
// elsewhere and moved.
func (tb *testbed) unixSocket(name string) {
	tb.Helper()
	short, err := os.MkdirTemp("", "s")
	if err != nil {
		tb.Fatal(err)
	}
	defer os.RemoveAll(short)
	at := filepath.Join(short, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at})
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	if err := os.Rename(at, filepath.Join(tb.dir, name)); err != nil {
		tb.Fatal(err)
	}
}

// tree describes the files below the root, except those of the good peer, as strings that change
// if a file is replaced.
func (tb *testbed) tree() map[string]string {
	tb.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(tb.dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), goodFile) || strings.HasPrefix(e.Name(), ".haul-") {
			return err
		}
		info, err := e.Info()
		if err == nil {
			all[p] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all
}

// must fails the test if err is not nil.
func (tb *testbed) must(err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// outside returns a directory outside the root, in which nothing may change.
func (tb *testbed) outside() string {
	dir := tb.TempDir()
	writeFile(tb, dir, "secret", "secret")
	tb.Cleanup(func() {
		if b, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(b) != "secret" {
			tb.Errorf("outside the root: %q, %v", b, err)
		}
		if e := entries(tb.T, dir); len(e) != 1 {
			tb.Errorf("outside the root are %q", e)
		}
	})
	return dir
}

package sftp

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/users"
)

// runOver runs a command over SSH as rclone does. refused is set if the server does not execute the
// command.
func runOver(t *testing.T, c *ssh.Client, command string, stdin io.Reader) (stdout, stderr string, status int, refused bool) {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = stdin, &out, &errs
	err = s.Run(command)
	if e, ok := errors.AsType[*ssh.ExitError](err); ok {
		return out.String(), errs.String(), e.ExitStatus(), false
	}
	return out.String(), errs.String(), 0, err != nil
}

// file creates a file in the tree.
func (w *testServer) file(name, data string) {
	w.t.Helper()
	storetest.Put(w.t, w.tree, name, data)
}

func md5Of(data string) string { s := md5.Sum([]byte(data)); return hex.EncodeToString(s[:]) }

// The command lines are those of rclone: one without a path to check whether the command exists,
// and one for each file, escaped for a shell.
func TestHashes(t *testing.T) {
	w := newTestServer(t, nil)
	c := w.login("192.0.2.1")
	data := testBytes(3 << 20)
	names := []string{"plain", "with space", "apo'strophe", `back\slash`, "$(id)", "`id`", "semi;colon", "日本語", "new\nline", "-dash", "a&b|c>d<e*f?g[h]~i#j=k!l{m}\"n"}
	for _, name := range names {
		w.file(name, data+name)
	}
	// This is like quoteOrEscapeShellPath of rclone's SFTP backend.
	quote := func(path string) string {
		var b strings.Builder
		for _, r := range path {
			switch {
			case r == '\n':
				b.WriteString("'\n'")
				continue
			case r < 0x80 && !strings.ContainsRune("_.,:/@-", r) && !isPlain(byte(r)), r == '%', r == '+':
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		return b.String()
	}
	for _, name := range names {
		out, _, status, refused := runOver(t, c, "md5sum "+quote("/"+name), nil)
		sum, shown, _ := strings.Cut(strings.TrimLeft(out, `\`), "  ")
		escaped := strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace("/" + name)
		if refused || status != 0 || sum != md5Of(data+name) || shown != escaped+"\n" {
			t.Errorf("%q: %q, status %d, refused %v", name, out, status, refused)
		}
		if marked := strings.HasPrefix(out, `\`); marked != (escaped != "/"+name) {
			t.Errorf("%q: %q", name, out)
		}
	}
	sha1s, sha256s := sha1.Sum([]byte(data+"plain")), sha256.Sum256([]byte(data+"plain"))
	for _, test := range []struct {
		command, stdin, want string
	}{
		{"md5sum", "", "d41d8cd98f00b204e9800998ecf8427e  -\n"},
		{"sha1sum", "", "da39a3ee5e6b4b0d3255bfef95601890afd80709  -\n"},
		{"sha256sum", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  -\n"},
		{"md5sum", data, md5Of(data) + "  -\n"},
		{"sha1sum /plain", "", hex.EncodeToString(sha1s[:]) + "  /plain\n"},
		{"sha256sum plain", "", hex.EncodeToString(sha256s[:]) + "  plain\n"},
		{"md5sum 'with space' './-dash'  '../../plain'", "", md5Of(data+"with space") + "  with space\n" + md5Of(data+"-dash") + "  ./-dash\n" + md5Of(data+"plain") + "  ../../plain\n"},
	} {
		out, stderr, status, refused := runOver(t, c, test.command, strings.NewReader(test.stdin))
		if out != test.want || stderr != "" || status != 0 || refused {
			t.Errorf("%s: %q, %q, status %d, refused %v; want %q", test.command, out, stderr, status, refused, test.want)
		}
	}
}

// An unreadable file causes a line on stderr. The others get their hashes.
func TestHashesFail(t *testing.T) {
	w := newTestServer(t, func(_ *testServer, s *Server) { s.MaxHandles = 1 })
	c := w.login("192.0.2.1")
	p := w.sftp(c)
	p.put("file", "data")
	if err := w.tree.Mkdir(t.Context(), "dir", 0o755); err != nil {
		t.Fatal(err)
	}
	out, stderr, status, _ := runOver(t, c, "md5sum /none /dir '' /file", nil)
	if out != md5Of("data")+"  /file\n" || status != 1 {
		t.Errorf("%q, status %d", out, status)
	}
	if want := "md5sum: \"/none\": No such file\nmd5sum: \"/dir\": Not a regular file\nmd5sum: \"\": Not a regular file\n"; stderr != want {
		t.Errorf("the errors are %q, want %q", stderr, want)
	}
	h := p.open("file", 1)
	if _, stderr, status, _ = runOver(t, c, "md5sum /file", nil); status != 1 || !strings.Contains(stderr, "Too many open files") {
		t.Errorf("with no handle left: %q, status %d", stderr, status)
	}
	p.close(h)
}

// Any command except the hash commands is refused.
func TestHashesRefused(t *testing.T) {
	for _, text := range []string{
		"", " ", "id", "md5", "md5sumx", "MD5SUM", "/usr/bin/md5sum a", "rclone md5sum", "sha512sum a", "echo ${ShellId}%ComSpec%", "echo 'abc' | md5sum",
		"md5sum a; id", "md5sum a;id", "md5sum a && id", "md5sum a | id", "md5sum a & id", "md5sum $(id)", "md5sum `id`", "md5sum $HOME", "md5sum \"a\"",
		"md5sum a\nid", "\nmd5sum a", "md5sum a\n", "md5sum a\\\nb", "md5sum a\rb", "md5sum a\tb", "md5sum a\x00b", "md5sum 'a\x00b'", "md5sum \x1b[2J",
		"md5sum 'a", "md5sum a'", "md5sum a\\", "md5sum < a", "md5sum > a", "md5sum *", "md5sum a?", "md5sum [a]", "md5sum {a,b}", "md5sum ~", "md5sum ~root", "md5sum #a",
		"md5sum !a", "md5sum (a)", "A=b md5sum a", "md5sum a=b",
		"md5sum -", "md5sum --", "md5sum --check a", "md5sum -c a", "md5sum a --check", "md5sum '--check' a", "md5sum \\--check a", "md5sum '-' a",
		"md5sum " + strings.Repeat("a", maxCommand), "md5sum " + strings.Repeat("a ", maxCommand), strings.Repeat(" ", maxCommand) + "md5sum",
	} {
		if cmd, ok := parseHashCommand(text); ok {
			t.Errorf("%.60q is taken as %q", text, cmd)
		}
	}
	w := newTestServer(t, nil)
	c := w.login("192.0.2.1")
	for _, text := range []string{"echo ${ShellId}%ComSpec%", "md5 -r", "md5sum a; id", "md5sum --check a", "md5sum " + strings.Repeat("a", 100_000)} {
		if out, stderr, _, refused := runOver(t, c, text, nil); !refused || out+stderr != "" {
			t.Errorf("%.40q is run: %q, %q", text, out, stderr)
		}
	}
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	word := ssh.Marshal(struct{ Name string }{"md5sum"})
	for i, want := range []bool{true, false} {
		if ok, err := s.SendRequest("exec", true, word); ok != want || err != nil {
			t.Errorf("time %d on one channel: %v, %v", i+1, ok, err)
		}
	}
	if err := s.RequestSubsystem("sftp"); err == nil {
		t.Error("one channel has a command and SFTP")
	}
}

// FuzzSplitWords checks that an accepted line means the same when each word is quoted.
func FuzzSplitWords(f *testing.F) {
	for _, text := range []string{"md5sum", `md5sum /a\ b\'c`, "md5sum 'a b'\\''c' ''", "md5sum a'\n'b", "md5sum \xff\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, ok := splitWords(text)
		if !ok {
			return
		}
		var quoted []string
		for _, word := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
		}
		again, ok := splitWords(strings.Join(quoted, " "))
		if !ok && len(strings.Join(quoted, " ")) <= maxCommand || ok && !slices.Equal(again, words) {
			t.Errorf("%q has the words %q, which quoted are %q", text, words, again)
		}
	})
}

// Users without read access get no hashes, and a reader only gets those of their tree.
func TestHashesAccess(t *testing.T) {
	for _, test := range []struct {
		access  users.Access
		refused bool
	}{{users.Full, false}, {users.ReadOnly, false}, {users.UploadOnly, true}} {
		w := newTestServer(t, func(w *testServer, s *Server) {
			s.Login = func(context.Context, *ssh.ServerConn) (*Account, error) {
				return &Account{User: "alice", Tree: w.tree, Access: test.access, Dir: "home"}, nil
			}
		})
		if err := w.tree.Mkdir(t.Context(), "home", 0o755); err != nil {
			t.Fatal(err)
		}
		w.file("home/file", "data")
		c := w.login("192.0.2.1")
		out, _, status, refused := runOver(t, c, "md5sum file", nil)
		if refused != test.refused || !refused && (status != 0 || out != md5Of("data")+"  file\n") {
			t.Errorf("access %v: %q, status %d, refused %v", test.access, out, status, refused)
		}
		if _, _, _, refused = runOver(t, c, "md5sum", nil); refused != test.refused {
			t.Errorf("access %v: the question whether there are hashes: refused %v", test.access, refused)
		}
	}
}

// Commands count as sessions. They stop when their channel or their connection is closed, even while
// they wait for input or for their turn.
func TestHashesEnd(t *testing.T) {
	w := newTestServer(t, func(_ *testServer, s *Server) { s.MaxChannels = 2 })
	c := w.login("192.0.2.1")
	w.file("file", "data")
	begin := func(command string) *ssh.Session {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			s, err := c.NewSession()
			if err == nil {
				if _, err = s.StdinPipe(); err == nil { // stdin stays open
					err = s.Start(command)
				}
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	for cap(w.server.shared.hashing.places) > len(w.server.shared.hashing.places) { // until no hash is being computed
		w.server.shared.hashing.places <- struct{}{}
	}
	waits, input := begin("md5sum /file"), begin("md5sum")
	if _, err := c.NewSession(); err == nil {
		t.Error("commands do not count as sessions")
	}
	_ = waits.Close()
	_ = input.Close()
	begin("md5sum /file")
	begin("md5sum")
	_ = c.Close()
	w.last(1)
	if n := w.server.Counters().Handles; n != 0 {
		t.Errorf("%d handles are left", n)
	}
}

// A stopping server lets a command finish before the connection ends: while the file is being
// hashed, and when only the answer is left to send.
func TestHashesDrain(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		end := func() {}
		w := newTestServer(t, func(_ *testServer, s *Server) {
			s.Audit = func(*Operation) { // after hashing, before the answer
				end()
				time.Sleep(20 * time.Millisecond) // time in which the connection might end, which would be wrong
			}
		})
		client, server := newWires("192.0.2.1")
		soft, stop := context.WithCancel(w.ctx)
		if hashed {
			end = stop
		}
		w.conns.Go(func() { w.server.serve(w.ctx, soft, server) })
		defer client.Close()
		c, err := w.dial(client, w.clientConfig())
		if err != nil {
			t.Fatal(err)
		}
		w.file("file", "data")
		for cap(w.server.shared.hashing.places) > len(w.server.shared.hashing.places) {
			w.server.shared.hashing.places <- struct{}{}
		}
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		s.Stdout = &out
		if err := s.Start("md5sum /file"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); w.server.Counters().Handles == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the command does not begin")
			}
		}
		if !hashed {
			stop()
		}
		for range cap(w.server.shared.hashing.places) {
			<-w.server.shared.hashing.places
		}
		if err := s.Wait(); err != nil || out.String() != md5Of("data")+"  /file\n" {
			t.Errorf("hashed %v: %q, %v", hashed, out.String(), err)
		}
		w.last(1)
		stop()
	}
}

// Each file that the server hashes is reported, for all kinds of requests.
func TestHashesAudit(t *testing.T) {
	reported := make(chan string, 10)
	w := newTestServer(t, func(_ *testServer, s *Server) {
		s.Audit = func(o *Operation) { reported <- fmt.Sprint(o.What, " ", o.Name, " ", o.Err == nil) }
	})
	w.file("file", "data")
	c := w.login("192.0.2.1")
	if _, _, status, _ := runOver(t, c, "md5sum /file /none", nil); status != 1 {
		t.Errorf("status %d", status)
	}
	p := w.sftp(c)
	p.ask(wire.AppendCheckFileName(nil, p.n(), "file", "md5", 0, 0, 0))
	p.ask(wire.AppendCheckFileName(nil, p.n(), "none", "md5", 0, 0, 0))
	for _, want := range []string{"md5sum /file true", "md5sum /none false", "check-file /file true", "check-file /none false"} {
		select {
		case got := <-reported:
			if got != want {
				t.Errorf("reported %q, want %q", got, want)
			}
		default:
			t.Errorf("lacks %q", want)
		}
	}
}

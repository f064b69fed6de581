package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
)

// A typist is a user at a terminal on which haul runs.
type typist struct {
	t      *testing.T
	master *os.File
	slave  *os.File
	screen *transcript
	child  *child
}

// newTerminal returns a user at a terminal on which nothing runs yet.
func newTerminal(t *testing.T) *typist {
	t.Helper()
	master, slave := servetest.OpenTerminal(t)
	y := &typist{t: t, master: master, slave: slave, screen: newTranscript()}
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := master.Read(buf)
			_, _ = y.screen.Write(buf[:n])
			if err != nil {
				y.screen.end()
				return
			}
		}
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("on the screen:\n%q", y.screen)
		}
	})
	return y
}

// atTerminal runs haul with a controlling terminal of its own, which is not its standard output.
func atTerminal(t *testing.T, args ...string) *typist {
	t.Helper()
	y := newTerminal(t)
	// The child's descriptor 3 is its controlling terminal.
	y.child = runChild(t, childOptions{
		files: []*os.File{y.slave}, attr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3},
	}, args...)
	return y
}

// await waits until the screen shows a string.
func (y *typist) await(text string) string {
	y.t.Helper()
	all, ok := y.screen.await(func(screen string, ended bool) bool { return ended || strings.Contains(screen, text) })
	if !ok || !strings.Contains(all, text) {
		y.t.Fatalf("the screen does not show %q:\n%s", text, all)
	}
	return all
}

func (y *typist) write(line string) {
	y.t.Helper()
	if _, err := y.master.WriteString(line + "\n"); err != nil {
		y.t.Fatal(err)
	}
}

// awaitTimes waits until a string has been shown n times.
func (y *typist) awaitTimes(text string, n int) {
	y.t.Helper()
	all, ok := y.screen.await(func(screen string, ended bool) bool { return ended || strings.Count(screen, text) >= n })
	if !ok || strings.Count(all, text) < n {
		y.t.Fatalf("the screen does not show %q %d times:\n%s", text, n, all)
	}
}

// awaitSecret waits until the terminal stops showing typed text, which haul switches off after it
// has printed the question.
func (y *typist) awaitSecret() {
	y.t.Helper()
	for late := time.Now().Add(patience); y.echoes(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			y.t.Fatal("the terminal shows a secret as it is typed")
		}
	}
}

// wantScreen checks how many times texts have been shown, and that typed text is shown again.
func (y *typist) wantScreen(times map[string]int) {
	y.t.Helper()
	screen := y.screen.String()
	for text, n := range times {
		if got := strings.Count(screen, text); got != n {
			y.t.Errorf("%q is on the screen %d times, want %d:\n%s", text, got, n, screen)
		}
	}
	if !y.echoes() {
		y.t.Error("the terminal does not show what is typed any more")
	}
}

// echoes reports whether the terminal shows typed text.
func (y *typist) echoes() bool {
	y.t.Helper()
	state, err := unix.IoctlGetTermios(int(y.slave.Fd()), unix.TCGETS)
	if err != nil {
		y.t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// A new host key and a key's passphrase are asked for on the terminal. A secret is not shown, and
// is asked for only once.
func TestAsking(t *testing.T) {
	l := startLabWith(t, labOptions{locked: true}, map[string]string{"f": "content", "g": "more"})
	if err := os.Remove(l.known); err != nil {
		t.Fatal(err)
	}
	y := atTerminal(t, "ls", "-F", l.config, "lab:f", "twin:g")
	y.await("is not known")
	y.await(ssh.FingerprintSHA256(l.host))
	y.await("(yes/no) ")
	y.write("what?")
	y.await(`Please write "yes" or "no": `)
	y.write("yes")
	y.await("Passphrase of the key " + l.key)
	y.awaitSecret()
	y.write("wrong")
	y.awaitTimes("Passphrase of the key", 2)
	y.awaitSecret()
	y.write(lockedPhrase)
	if said := y.child.wantExit(0); !strings.Contains(said, "was added to") || !strings.Contains(said, "f\ng\n") {
		t.Errorf("said %s", said)
	}
	y.wantScreen(map[string]int{"(yes/no)": 1, "Passphrase": 2, lockedPhrase: 0, "wrong": 0})
}

func TestAskingPassword(t *testing.T) {
	l := startLabWith(t, labOptions{password: "open sesame"}, map[string]string{"f": "", "g": ""})
	l.configure("PreferredAuthentications password")
	y := atTerminal(t, "ls", "-F", l.config, "lab:f", "twin:g")
	y.await("Password of me@")
	y.awaitSecret()
	y.write("wrong")
	y.child.await("Permission denied, please try again")
	y.awaitTimes("Password of me@", 2)
	y.awaitSecret()
	y.write("open sesame")
	y.child.wantExit(0)
	y.wantScreen(map[string]int{"Password": 2, "sesame": 0})
}

// A keyboard-interactive question is marked as the server's words.
func TestAskingInteractive(t *testing.T) {
	l := startLabWith(t, labOptions{server: func(s *sftp.Server) { interactive(s) }}, map[string]string{"f": ""})
	l.configure("PubkeyAuthentication no")
	y := atTerminal(t, "ls", "-F", l.config, "lab:")
	y.await("asks:")
	y.await("A riddle for you")
	y.await("What has keys and opens no door? ")
	y.write("piano")
	y.await("Your number: ")
	y.awaitSecret()
	y.write("12345")
	y.child.wantExit(0)
	y.wantScreen(map[string]int{"12345": 0, "piano": 1})
}

// An interrupt during a question restores the terminal.
func TestInterruptedQuestion(t *testing.T) {
	l := startLabWith(t, labOptions{password: "open sesame"}, nil)
	l.configure("PreferredAuthentications password")
	y := atTerminal(t, "ls", "-F", l.config, "lab:")
	y.await("Password of me@")
	y.awaitSecret()
	if _, err := y.master.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	y.child.wantExit(exitInterrupted)
	y.wantScreen(nil)
}

// If there is no user to ask, or with --batch, a login fails at once and says why.
func TestNobodyToAsk(t *testing.T) {
	l := startLabWith(t, labOptions{password: "open sesame"}, nil)
	l.configure("PubkeyAuthentication no")
	if code, _, msg := l.haul("ls", "lab:"); code != exitRefused || !strings.Contains(msg, "nobody to ask") || !strings.Contains(msg, "--batch") {
		t.Errorf("--batch: exit code %d, %s", code, msg)
	}
	c := runChild(t, childOptions{attr: &syscall.SysProcAttr{Setsid: true}}, "ls", "-F", l.config, "lab:")
	if said := c.wantExit(exitRefused); !strings.Contains(said, "there is no terminal") || !strings.Contains(said, "use --password-file") || strings.Contains(said, "--batch") {
		t.Errorf("said %s", said)
	}

	w := startWeb(t, map[string]string{"a": "aaa"})
	w.setHook(func(r http.ResponseWriter, _ *http.Request) bool {
		r.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		r.WriteHeader(http.StatusUnauthorized)
		return true
	})
	c = runChild(t, childOptions{attr: &syscall.SysProcAttr{Setsid: true}}, "get", w.URL+"/a", t.TempDir())
	const want = "needs a login, and there is no terminal to ask on: use --password-file or ~/.netrc"
	if said := c.wantExit(exitRefused); !strings.Contains(said, want) || strings.Contains(said, "nobody to ask") {
		t.Errorf("said %s", said)
	}
}

// interactive makes a server ask two questions, and accept any answers.
func interactive(s *sftp.Server) {
	configured := s.SSH
	s.SSH = func(ctx context.Context, c net.Conn) (*ssh.ServerConfig, error) {
		config, err := configured(ctx, c)
		if err != nil {
			return nil, err
		}
		config.PasswordCallback, config.PublicKeyCallback = nil, nil
		config.KeyboardInteractiveCallback = func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "A riddle for you", []string{"What has keys and opens no door?", "Your number:"}, []bool{true, false})
			if err != nil || len(answers) != 2 || answers[0] != "piano" || answers[1] != "12345" {
				return nil, fmt.Errorf("answers %q, %v", answers, err)
			}
			return &ssh.Permissions{}, nil
		}
		return config, nil
	}
	files := s.Login
	s.Login = func(ctx context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
		a, err := files(ctx, c)
		if err != nil {
			a = &sftp.Account{User: c.User(), Tree: store.Mem(0)} // the user was not admitted by package users
		}
		return a, nil
	}
}

// run runs a command in this process, with the terminal as standard output and standard error.
func (y *typist) run(args ...string) {
	y.t.Helper()
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(y.slave)
	cmd.SetErr(y.slave)
	if err := cmd.ExecuteContext(y.t.Context()); err != nil {
		y.t.Fatalf("haul %q: %v", args, err)
	}
	_, _ = y.slave.WriteString("END")
}

// Names chosen by a server cannot control a terminal.
func TestNamesOnTerminal(t *testing.T) {
	files := map[string]string{}
	for _, n := range strangeNames {
		files[n] = ""
	}
	l := startLab(t, files)
	for _, flags := range [][]string{{"ls"}, {"ls", "-l"}, {"ls", "-R"}, {"ls", "--json"}, {"stat"}} {
		y := newTerminal(t)
		where := "lab:"
		if flags[0] == "stat" {
			where = "lab:[^b]*" // the server refuses names that are not UTF-8
		}
		y.run(append(l.args(flags...), where)...)
		screen := y.await("END")
		if isUntamed(screen) {
			t.Errorf("%v: %q", flags, screen)
		}
		if flags[len(flags)-1] != "--json" && !strings.Contains(screen, `a\x1b[2Jb`) {
			t.Errorf("%v: the name is not shown: %q", flags, screen)
		}
	}
}

// A terminal shows a bar for each slow file, and one for the total.
func TestBarsOnTerminal(t *testing.T) {
	t.Parallel() // it waits most of the time
	l := startLab(t, map[string]string{"d/lo\x1b[2Jng": strings.Repeat("x", 5<<20), "d/other": strings.Repeat("x", 5<<20), "d/short": "x"})
	y := newTerminal(t)
	y.run(l.args("get", "-r", "--limit", "5M", "lab:d", t.TempDir())...)
	screen := y.await("END")
	for _, want := range []string{" %, ", " of 10.5 MB, 1 of 3 files, ", " left", `lo\x1b[2Jng`, "other", "3 files, 10.5 MB in "} {
		if !strings.Contains(screen, want) {
			t.Errorf("the screen lacks %q", want)
		}
	}
	y = newTerminal(t)
	y.run(l.args("get", "--limit", "5M", "-q", "lab:d/lo*", t.TempDir())...)
	if screen := y.await("END"); screen != "END" {
		t.Errorf("with -q: %q", screen)
	}
}

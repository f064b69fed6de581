//go:build unix

package main

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/users"
)

// Programs rely on these keys: none may disappear or change its type.
func TestServeSFTPLogJSON(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := startSFTP(t, childOptions{}, dir, "--log-format", "json")
	s.wantNoLogin(s.as("haul", ssh.Password("wrong")))
	f := s.files(s.once())
	f.wantRead("kernel", "image")
	f.wantWrite("log", "text")
	f.want("rename", f.Rename(t.Context(), "log", "old"))
	if err := f.Remove(t.Context(), "none"); err == nil {
		t.Error("removed what was not there")
	}
	f.Close()
	s.await(`"msg":"sftp logout"`)
	lines := jsonLines(t, s.stop())
	text, number := "", 0.0
	kinds := []struct {
		msg  string
		has  map[string]any // required values
		keys map[string]any // required keys and their types
	}{
		{"sftp login", map[string]any{"result": "refused", "method": "password", "level": "WARN", "error": "wrong password"}, map[string]any{"user": text, "peer": text}},
		{"sftp login", map[string]any{"result": "accepted", "method": "password", "level": "INFO", "access": "full", "root": "."}, map[string]any{"user": text, "peer": text, "client": text}},
		{"sftp", map[string]any{"result": "done", "direction": "read", "file": "/kernel", "bytes": 5.0, "path": filepath.Join(real, "kernel")}, map[string]any{"user": text, "peer": text, "duration": number, "rate": number}},
		{"sftp", map[string]any{"result": "done", "direction": "write", "file": "/log", "bytes": 4.0, "path": filepath.Join(real, "log")}, map[string]any{"user": text, "peer": text, "duration": number, "rate": number}},
		{"sftp", map[string]any{"result": "done", "operation": "rename", "file": "/log", "to": "/old"}, map[string]any{"user": text, "peer": text}},
		{"sftp", map[string]any{"result": "failed", "operation": "remove", "file": "/none", "level": "INFO"}, map[string]any{"user": text, "peer": text, "error": text}},
		{"sftp logout", map[string]any{"result": "done", "sent": 5.0, "received": 4.0}, map[string]any{"user": text, "peer": text, "duration": number}},
	}
	for _, kind := range kinds {
		i := slices.IndexFunc(lines, func(l map[string]any) bool {
			for key, value := range kind.has {
				if l[key] != value {
					return false
				}
			}
			return l["msg"] == kind.msg
		})
		if i < 0 {
			t.Errorf("no line %q has %v", kind.msg, kind.has)
			continue
		}
		want := slices.Concat([]string{"time", "level", "msg"}, slices.Collect(maps.Keys(kind.has)), slices.Collect(maps.Keys(kind.keys)))
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(lines[i])); !slices.Equal(got, slices.Compact(want)) {
			t.Errorf("%v has the keys %q, want %q", kind.has, got, want)
		}
		for key, value := range kind.keys {
			_, isText := lines[i][key].(string)
			_, wantText := value.(string)
			if isText != wantText {
				t.Errorf("%v: %s is %v", kind.has, key, lines[i][key])
			}
		}
	}
}

// Text that strangers and users choose cannot forge a line or control a terminal.
func TestServeSFTPLogHostile(t *testing.T) {
	t.Parallel() // it waits most of the time
	hostile := []string{"a\nhaul: fake", "\x1b[2Jescape", "\x9bcsi", "\xff\xfe", "bidi\u202e", strings.Repeat("long", 50)}
	invalid := []string{"nul\x00"} // no file can have these names
	for _, format := range []string{"text", "json"} {
		s := startSFTP(t, childOptions{}, servedDir(t, nil), "--log-format", format)
		f := s.files(s.once())
		for _, name := range hostile {
			f.wantWrite(name, "x")
			f.want("symlink", f.Symlink(t.Context(), name, name+"l"))
			f.want("remove", f.Remove(t.Context(), name))
		}
		for _, name := range invalid {
			if err := f.write(name, "x"); err == nil {
				t.Errorf("wrote %q", name)
			}
		}
		f.Close()
		for _, name := range hostile[:2] { // penalties would prevent further attempts
			s.wantNoLogin(s.as(name, ssh.Password("wrong")))
		}
		s.wantNoLogin(s.as(strings.Repeat("u", 10_000)))
		said := s.stop()
		for _, r := range said {
			if r != '\n' && (r < ' ' || r == '\ufffd' || r == 0x9b || r == 0x7f || r == '\u202e') {
				t.Fatalf("%s: the log has the character %U", format, r)
			}
		}
		if strings.Contains(said, "\nhaul: fake") || strings.Contains(said, strings.Repeat("u", 200)) {
			t.Errorf("%s: the log has a line that was forged, or a long name", format)
		}
		if format == "json" {
			jsonLines(t, said)
		}
	}
}

// A client that connects and disconnects repeatedly is refused, and does not fill the log: its
// connections are only counted.
func TestServeSFTPTurnedAway(t *testing.T) {
	s := startSFTP(t, childOptions{}, t.TempDir(), "--metrics", "127.0.0.1:0")
	const knocks = 400
	for range knocks {
		c, err := net.Dial("tcp", s.at)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		var b [1 << 10]byte
		for err == nil { // until the server has closed it too
			_, err = c.Read(b[:])
		}
		c.Close()
	}
	_, page := s.scrape("/metrics")
	code, _, msg := haul(t, "ls", "--batch", "-F", "none", "sftp://"+s.at)
	if code != exitRefused || !strings.Contains(msg, "Not allowed at this time") {
		t.Errorf("haul ls: exit code %d, says %q", code, msg)
	}
	said := s.stop()
	turned := -1 // haul ls
	lines := 0
	for _, m := range regexp.MustCompile(`msg="sftp: connections turned away" cause=.* connections=(\d+) last=127`).FindAllStringSubmatch(said, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		turned += n
		lines++
	}
	let := strings.Count(said, `msg="sftp login" result=none`)
	if turned+let != knocks || turned < knocks/2 || !strings.Contains(said, "penalties for earlier failures") || !strings.Contains(said, `cause="connections without a login"`) {
		t.Errorf("%d came, %d were let in, and %d turned away", knocks, let, turned)
	}
	if lines > let {
		t.Errorf("%d lines are about refused clients", lines)
	}
	if !strings.Contains(page, `haul_refused_total{protocol="sftp",reason="rate"} `+strconv.Itoa(turned)+"\n") {
		t.Errorf("the metrics do not have %d refused", turned)
	}
}

// --allow and --deny also apply to SFTP, before a byte is exchanged.
func TestServeSFTPDenied(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, flags := range [][]string{{"--deny", "127.0.0.0/8"}, {"--allow", "192.0.2.0/24"}} {
		s := startSFTP(t, childOptions{}, append(flags, t.TempDir())...)
		if c, err := net.Dial("tcp", s.at); err == nil { // otherwise the reset has already arrived
			if n, err := c.Read(make([]byte, 1)); err == nil {
				t.Errorf("%q: the server says %d bytes", flags, n)
			}
			c.Close()
		}
		s.await("connections turned away", `cause="--allow and --deny"`)
		s.stop()
	}
	s := startSFTP(t, childOptions{}, t.TempDir(), "--allow", "127.0.0.1", "--deny", "192.0.2.0/24")
	s.login(s.once())
	s.stop()
}

// After several wrong passwords, no password is checked for a time that the log states, unless the
// network is exempt. Users with a key still get in.
func TestServeSFTPGuesses(t *testing.T) {
	login, key := newLogin(t)
	hash, err := users.HashPassword([]byte("a password"))
	if err != nil {
		t.Fatal(err)
	}
	file := usersFile(t, "user haul\n  password "+hash.Encoded()+"\n  key "+key+"\n")
	for flag, out := range map[string]bool{"": true, "--sftp-exempt=127.0.0.0/8": false} {
		args := []string{servedDir(t, nil), "--users", file}
		if flag != "" {
			args = append(args, flag)
		}
		s := startSFTP(t, childOptions{}, args...)
		for range 8 {
			s.wantNoLogin(s.as("haul", ssh.Password("guess")))
		}
		if out {
			s.wantNoLogin(s.as("haul", ssh.Password("a password")))
			s.await("sftp: locked out", `cause="wrong passwords"`, "network=127.0.0.1/32 until=20", "passwords (keys still work)")
			s.await("result=none", "passwords refused: wrong passwords before")
		} else {
			s.login(s.as("haul", ssh.Password("a password")))
		}
		s.login(s.as("haul", login))
		s.stop()
	}
}

// One address may have as many connections as the flag says.
func TestServeSFTPConnsPerSource(t *testing.T) {
	s := startSFTP(t, childOptions{}, servedDir(t, nil), "--sftp-conns-per-source", "2")
	s.login(s.once())
	s.login(s.once())
	s.wantNoLogin(s.once())
	s.await("connections turned away", "too many connections of this source")
	s.stop()
}

// With -q only refusals are logged.
func TestServeSFTPQuiet(t *testing.T) {
	dir := servedDir(t, map[string]string{"kernel": "image"})
	s := startSFTP(t, childOptions{}, dir, "-q")
	f := s.files(s.once())
	f.wantRead("kernel", "image")
	f.wantWrite("log", "text")
	f.want("symlink", f.Symlink(t.Context(), strings.Repeat("../", 9)+"etc", "out"))
	if err := f.write("out/x", "x"); err == nil {
		t.Error("wrote out of the root")
	}
	f.Close()
	said := logLines(t, s.stop())
	said = slices.DeleteFunc(said, func(l string) bool { return strings.Contains(l, "running as root") })
	if len(said) != 2 || !strings.Contains(said[0], "result=refused operation=stat file=/out/x") ||
		!strings.Contains(said[1], "result=refused operation=open file=/out/x") {
		t.Errorf("said %q, want what was refused", said)
	}
	wantNames(t, dir, "kernel", "log", "out")
	if _, err := os.Stat(filepath.Join("/etc", "x")); err == nil {
		t.Error("there is /etc/x")
	}
}

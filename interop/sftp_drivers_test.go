//go:build unix

package interop

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A driver is a program of ours around an SFTP client library: package sftp's, pkg/sftp's,
// paramiko's, or asyncssh's. All have the same interface. They read a job from standard input, in
// JSON: the login, and a list of operations, each a list of strings whose first is one of
//
//	get REMOTE LOCAL          reget REMOTE LOCAL    append what LOCAL lacks
//	put LOCAL REMOTE          reput LOCAL REMOTE    append what REMOTE lacks
//	publish LOCAL REMOTE      put, hidden until it is complete
//	mkdir, rmdir, remove, removeall NAME
//	move FROM TO              unless TO exists
//	rename FROM TO            replaces TO
//	symlink TARGET NAME       link FROM TO          copy FROM TO
//	readlink, realpath, stat, lstat, list, statvfs NAME
//	chmod NAME OCTAL          utime NAME SECONDS    truncate NAME BYTES
//	read NAME OFFSET BYTES    write NAME OFFSET HEX
//
// and print a line of JSON for each, in the format of answer. Remote names are bytes, so in JSON
// each byte is the character with its number.
type driver struct {
	name  string
	find  func(t *testing.T) program
	lacks string // operations and cases that its library does not support, surrounded by spaces
}

var haulDriver = driver{name: "haul", lacks: " ", find: func(t *testing.T) program {
	t.Helper()
	p, err := buildHaulDriver()
	if err != nil {
		t.Fatal(err)
	}
	return p
}}

var buildHaulDriver = sync.OnceValues(func() (program, error) {
	p := program{path: filepath.Join(temp, "hauldriver")}
	out, err := exec.Command("go", "build", "-tags", tags, "-o", p.path, "./testdata/hauldriver").CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return p, nil
})

var pkgsftpDriver = driver{name: "pkg/sftp", lacks: " copy publish ", find: func(t *testing.T) program {
	p := findPkgSFTP(t)
	p.args = []string{"client"}
	return p
}}

// findPkgSFTP builds pkg/sftp's program, whose module is fetched once.
func findPkgSFTP(t *testing.T) program {
	t.Helper()
	p, err := buildPkgSFTP()
	if err != nil {
		absent(t, "pkg/sftp cannot be built: %v", err)
	}
	return p
}

var buildPkgSFTP = sync.OnceValues(func() (program, error) {
	p := program{path: filepath.Join(temp, "pkgsftp")}
	out, err := exec.Command("go", "build", "-C", "testdata/pkgsftp", "-o", p.path, ".").CombinedOutput()
	if err != nil {
		return p, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return p, nil
})

// Large files take too long with the libraries in Python.
var paramikoDriver = driver{
	name: "paramiko", lacks: " link copy large publish removeall statvfs invalid ",
	find: func(t *testing.T) program { return findPython(t, "python3-paramiko", "paramiko_client.py") },
}

var asyncsshDriver = driver{
	name: "asyncssh", lacks: " copy large publish ",
	find: func(t *testing.T) program { return findPython(t, "python3-asyncssh", "asyncssh_client.py") },
}

// findPython returns one of our scripts, run by the system's Python, for which the distribution's
// packages are made; a user's own would lack their compiled parts.
func findPython(t *testing.T, pkg, script string) program {
	t.Helper()
	dir := peerDir(t, pkg)
	packages := filepath.Join(dir, "usr/lib/python3/dist-packages")
	if _, err := os.Stat(packages); err != nil {
		absent(t, "%s is not here; scripts/install-peers fetches it", pkg)
	}
	file, err := filepath.Abs(filepath.Join("testdata/python", script))
	if err != nil {
		t.Fatal(err)
	}
	for _, python := range []string{filepath.Join(dir, "usr/bin/python3"), "/usr/bin/python3"} {
		if _, err := os.Stat(python); err == nil {
			env := append(libraries(dir), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore")
			return program{path: python, env: env, args: []string{file}}
		}
	}
	absent(t, "python3 is not here; scripts/install-peers fetches it with %s", pkg)
	panic("unreachable")
}

// An answer is the result of an operation.
type answer struct {
	Value json.RawMessage
	Error string // the library's error message; "" on success
	Kind  string // kind of error: "not exist", "exist", "permission", "unsupported" or unknown
}

// A job is the input of a driver.
type job struct {
	Addr, User, Key, Cert, HostKey, Password string
	Conns, Sessions                          int
	Ops                                      [][]string
}

// do makes the driver perform operations on one connection, and returns an answer to each. Our
// names are bytes; the interface needs characters.
func (d driver) do(t *testing.T, l login, ops ...[]string) []answer {
	t.Helper()
	answers, err := d.try(t, job{}, l, ops...)
	if err != nil {
		t.Fatalf("%s: %v", d.name, err)
	}
	return answers
}

// try is like do for tests in which the connection may fail, with the settings of j.
func (d driver) try(t *testing.T, j job, l login, ops ...[]string) ([]answer, error) {
	t.Helper()
	j.Addr, j.User, j.Key, j.Cert, j.Password = l.addr, l.user, l.key, l.cert, l.password
	j.HostKey = string(ssh.MarshalAuthorizedKey(l.host))
	for _, op := range ops {
		coded := []string{op[0]}
		for _, s := range op[1:] {
			coded = append(coded, latin(s))
		}
		j.Ops = append(j.Ops, coded)
	}
	input, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := d.find(t).command(ctx)
	cmd.Stdin = bytes.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	var answers []answer
	for lines := bufio.NewReader(&stdout); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			return answers, fmt.Errorf("it said %q: %w", line, err)
		}
		answers = append(answers, a)
	}
	if runErr != nil || len(answers) != len(ops) {
		return answers, fmt.Errorf("%d of %d answers, then %v\n%s", len(answers), len(ops), runErr, stderr.String())
	}
	return answers, nil
}

// latin replaces each byte with the character with its number, and raw reverses that.
func latin(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}

func raw(s string) string {
	var b strings.Builder
	for _, r := range s {
		b.WriteByte(byte(r))
	}
	return b.String()
}

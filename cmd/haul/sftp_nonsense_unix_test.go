//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/race"
)

// asNonsense makes this test binary behave as an ssh that connects to a lying server. The variable
// names a file, to which the server appends each name that a request would change. The first
// argument is the lie.
const asNonsense = "HAUL_TEST_AS_NONSENSE"

func init() {
	if log := os.Getenv(asNonsense); log != "" {
		s := &nonsense{lie: os.Args[1], log: log, open: map[string]string{}, listed: map[string]int{}}
		if err := s.serve(os.Stdin, os.Stdout); err != nil && err != io.EOF {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
}

// A nonsense is an SFTP 3 server that lies in one way. Its directories never end: each has a file
// "f" and, up to a depth that keeps the test quick, a directory "d".
type nonsense struct {
	lie    string
	log    string
	open   map[string]string // names by handle
	listed map[string]int    // number of READDIRs by handle
	made   string            // a directory that a request has created
}

// Types of packets, and constants in them.
const (
	sftpInit, sftpVersion, sftpOpen, sftpClose, sftpRead, sftpWrite            = 1, 2, 3, 4, 5, 6
	sftpLstat, sftpFstat, sftpOpendir, sftpReaddir                             = 7, 8, 11, 12
	sftpMkdir, sftpRealpath, sftpStat                                          = 14, 16, 17
	sftpStatus, sftpHandle, sftpData, sftpName, sftpAttrs                      = 101, 102, 103, 104, 105
	statusOK, statusEOF, statusNoFile, statusFailure, statusUnsupported        = 0, 1, 2, 4, 8
	nonsenseSize                                                        uint64 = 1000
)

func (s *nonsense) serve(r io.Reader, w io.Writer) error {
	for {
		var head [9]byte // length, type, and request ID
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		rest := make([]byte, binary.BigEndian.Uint32(head[:])-5)
		if _, err := io.ReadFull(r, rest); err != nil {
			return err
		}
		if _, err := w.Write(s.answer(head[4], head[5:9], rest)); err != nil {
			return err
		}
	}
}

// packet returns a packet. The body begins with the request ID.
func packet(kind byte, body ...[]byte) []byte {
	all := []byte{0, 0, 0, 0, kind}
	for _, b := range body {
		all = append(all, b...)
	}
	binary.BigEndian.PutUint32(all, uint32(len(all)-4))
	return all
}

func number(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func text(s string) []byte { return append(number(len(s)), s...) }

// attrs returns the attributes of a file or a directory.
func (s *nonsense) attrs(dir bool) []byte {
	size, mode := nonsenseSize, 0o100644
	if dir {
		mode = 0o40755
	}
	if s.lie == "size of -1" {
		size = 1<<64 - 1
	}
	return append(append(number(1|4), binary.BigEndian.AppendUint64(nil, size)...), number(mode)...)
}

// isDir reports whether a name is a directory.
func (s *nonsense) isDir(name string) bool { return path.Base(name) != "f" }

// answer returns the answer to a request.
func (s *nonsense) answer(kind byte, id, rest []byte) []byte {
	name, more := "", rest
	if len(rest) >= 4 && kind != sftpInit {
		n := binary.BigEndian.Uint32(rest)
		name, more = string(rest[4:4+n]), rest[4+n:]
	}
	handle := name
	if of, ok := s.open[handle]; ok {
		name = of
	}
	status := func(code int) []byte { return packet(sftpStatus, id, number(code), text("no\x1b[2J"), text("")) }
	entry := func(name string, dir bool) []byte { return append(append(text(name), text("")...), s.attrs(dir)...) }
	switch kind {
	case sftpInit:
		return packet(sftpVersion, number(3))
	case sftpRealpath:
		return packet(sftpName, id, number(1), entry(path.Join("/", name), true))
	case sftpStat, sftpLstat, sftpFstat:
		switch {
		case kind != sftpFstat && strings.HasPrefix(name, "new") && name != s.made || kind != sftpFstat && strings.Contains(name, ".haul"):
			return status(statusNoFile)
		case s.lie == "another type of answer":
			return packet(sftpHandle, id, text("h"))
		case s.lie == "a request that nobody made":
			return packet(sftpAttrs, number(1<<30), s.attrs(false))
		case s.lie == "a length of 4 GiB":
			return append(append(number(-1), sftpAttrs), id...)
		case s.lie == "becomes a directory":
			return packet(sftpAttrs, id, s.attrs(kind == sftpFstat || s.isDir(name)))
		}
		return packet(sftpAttrs, id, s.attrs(s.isDir(name)))
	case sftpOpendir, sftpOpen:
		switch {
		case s.lie == "a handle of 300 bytes":
			return packet(sftpHandle, id, text(strings.Repeat("h", 300)))
		case s.lie == "vanishes" && kind == sftpOpen:
			return status(statusNoFile)
		}
		if kind == sftpOpen && more[3]&2 != 0 {
			s.changed(name)
		}
		handle := fmt.Sprint(len(s.open))
		s.open[handle] = name
		return packet(sftpHandle, id, text(handle))
	case sftpReaddir:
		s.listed[handle]++
		switch lie := s.lie; {
		case lie == "names without end":
			return packet(sftpName, id, number(1), entry(strings.Repeat("n", 200_000), false))
		case s.listed[handle] > 1:
			return status(statusEOF)
		case lie == "a slash", lie == "an absolute name", lie == "two dots and more", lie == "a NUL", lie == "no name":
			evil := map[string]string{"a slash": "d/../../../evil", "an absolute name": "/evil", "two dots and more": "../evil", "a NUL": "f\x00evil", "no name": ""}[lie]
			return packet(sftpName, id, number(2), entry(evil, false), entry("f", false))
		case lie == "a million names in one packet":
			return packet(sftpName, id, number(1<<20), entry("f", false))
		case lie == "directories without end":
			return packet(sftpName, id, number(3), entry(".", true), entry("f", false), entry("d", true))
		}
		return packet(sftpName, id, number(1), entry("f", false))
	case sftpRead:
		at, size, sent := binary.BigEndian.Uint64(more), nonsenseSize, uint64(binary.BigEndian.Uint32(more[8:]))
		switch s.lie {
		case "shrinks":
			size = 10
		case "grows":
			size = 3 * nonsenseSize
		case "becomes a directory", "fails":
			return status(statusFailure)
		case "more data than asked for":
			return packet(sftpData, id, text(strings.Repeat("x", int(sent)+1)))
		}
		if at >= size {
			return status(statusEOF)
		}
		return packet(sftpData, id, text(strings.Repeat("x", int(min(sent, size-at)))))
	case sftpClose:
		return status(statusOK)
	case 200:
		return status(statusUnsupported)
	}
	if kind == sftpMkdir {
		s.made = name
	}
	if kind != sftpWrite {
		s.changed(name)
	}
	return status(statusOK)
}

// changed records a name that a request would change.
func (s *nonsense) changed(name string) {
	f, err := os.OpenFile(s.log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, _ = fmt.Fprintf(f, "%q\n", name)
		_ = f.Close()
	}
}

// runAgainst runs a command for which a lying server is h:. It returns what the command would have
// changed there.
func runAgainst(t *testing.T, lie, command string) (code int, stdout, stderr, changed string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	words := strings.Fields(command)
	args := append([]string{words[0], fmt.Sprintf(`--ssh=env %s="%s" "%s" "%s"`, asNonsense, log, exe, lie)}, words[1:]...)
	code, stdout, stderr = printed(t, args)
	b, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return code, stdout, stderr, string(b)
}

// Whatever a server says about its files, commands end, report what is wrong, and touch no other
// file.
func TestNonsense(t *testing.T) {
	t.Parallel() // it waits most of the time
	const (
		trees = "ls -lR h:top|tree -s h:top|sum -r h:top|cp -r h:top h:new|chmod -R 700 h:top|rm -r h:top|rm -rn h:top|get -r h:top HERE"
		files = "cat h:f|cat --offset 5 h:f|sum h:f|cp h:f h:new|get h:f HERE"
	)
	for lie, c := range map[string]struct{ fail, work string }{
		"a slash": {fail: trees}, "an absolute name": {fail: trees}, "two dots and more": {fail: trees}, "a NUL": {fail: trees}, "no name": {fail: trees},
		"a million names in one packet": {fail: trees}, "directories without end": {fail: trees}, "names without end": {fail: "ls h:top|get -r h:top HERE"},
		"another type of answer": {fail: trees + "|" + files}, "more data than asked for": {fail: files}, "vanishes": {fail: files}, "fails": {fail: files},
		"becomes a directory": {fail: files}, "shrinks": {fail: "cp h:f h:new|get h:f HERE", work: "cat h:f|sum h:f"}, "grows": {work: files},
		"size of -1": {fail: "cp h:f h:new|get h:f HERE", work: "ls -l h:f|stat h:f|sum h:f|cat h:f"},
		// If these end a session, haul tries for several seconds to begin another one.
		"a handle of 300 bytes": {fail: "tree h:top|cat h:f"}, "a length of 4 GiB": {fail: "ls h:top|cat h:f"}, "a request that nobody made": {fail: "chmod -R 700 h:top|cat h:f"},
	} {
		commands := strings.Split(strings.Trim(c.fail+"|"+c.work, "|"), "|")
		if race.Enabled {
			commands = commands[:1] // one for each lie: both sides run under the detector, which takes minutes for all
		}
		for _, command := range commands {
			code, out, msg, changed := runAgainst(t, lie, strings.ReplaceAll(command, "HERE", filepath.Join(t.TempDir(), "copy")))
			fails := strings.Contains(c.fail, command)
			if fails != (code != 0) || code == exitUsage || fails && msg == "" || strings.ContainsAny(out+msg, "\x1b\x00") || strings.Contains(out+changed, "evil") {
				t.Errorf("%s: %s: exit code %d, %.200q, %.400q; changed %.200s", lie, command, code, out, msg, changed)
			}
		}
	}
}

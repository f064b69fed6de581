package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// sumFiles are files whose names have all that a line of sha256sum escapes.
func sumFiles() map[string]string {
	files := map[string]string{"plain": "content", "empty": "", "two words": "2", "-dash": "3", "*star": "4", "sub/in": "5"}
	if runtime.GOOS != "windows" {
		for _, name := range []string{`back\slash`, "line\nend", " space", "\x1b[31m"} {
			files[name] = name
		}
	}
	return files
}

// The server's hashes, and those of what is read, over all protocols are what sha256sum prints.
func TestSum(t *testing.T) {
	files := sumFiles()
	l, w := startLab(t, files), startWeb(t, files)
	names := []string{"*star", "-dash", "empty", "plain", "two words"}
	want := "" // of sha256sum
	for _, name := range names {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(files[name])), name)
	}
	var sftp, http []string
	for _, name := range names {
		sftp, http = append(sftp, "lab:"+name), append(http, w.URL+"/"+strings.ReplaceAll(name, " ", "%20"))
	}
	if got := l.must(append([]string{"sum"}, sftp...)...); got != want {
		t.Errorf("over SFTP:\n%swant\n%s", got, want)
	}
	if got := l.must(append([]string{"sum", "--read"}, sftp...)...); got != want {
		t.Errorf("read over SFTP:\n%swant\n%s", got, want)
	}
	if got := w.must(append([]string{"sum"}, http...)...); got != want {
		t.Errorf("over HTTP:\n%swant\n%s", got, want)
	}
	t.Chdir(l.dir)
	if code, got, msg := haul(t, append([]string{"sum", "--"}, names...)...); got != want || code != 0 {
		t.Errorf("here:\n%s%s", got, msg)
	}
	if got := l.must("sum", "-r", "lab:sub"); got != fmt.Sprintf("%x  sub/in\n", sha256.Sum256([]byte("5"))) {
		t.Errorf("a directory: %q", got)
	}
	if got := l.must("sum", "--algorithm", "md5", "--tag", "lab:empty"); got != "MD5 (empty) = d41d8cd98f00b204e9800998ecf8427e\n" {
		t.Errorf("by MD5, as BSD: %q", got)
	}
	if code, got, msg := l.haul("sum", "lab:sub", "lab:none", "lab:plain"); code != exitRefused || !strings.HasSuffix(got, "  plain\n") || !strings.Contains(msg, "-r") || !strings.Contains(msg, "none") {
		t.Errorf("a directory, and a missing file: exit code %d, %q, %s", code, got, msg)
	}
}

// Lists are written, and checked, byte for byte as sha256sum does it, if it is there.
func TestSumAsCoreutils(t *testing.T) {
	tool, err := exec.LookPath("sha256sum")
	if text, e := exec.Command("sha256sum", "--version").Output(); err != nil || e != nil || !bytes.Contains(text, []byte("coreutils) 9.")) {
		t.Skip("no sha256sum of GNU coreutils 9")
	}
	files := sumFiles()
	l := startLab(t, files)
	t.Chdir(l.dir)
	theirs := func(args ...string) (string, string, int) {
		cmd := exec.Command(tool, args...)
		cmd.Args[0] = "sha256sum"
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		var out, msg bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &msg
		_ = cmd.Run()
		return out.String(), strings.ReplaceAll(msg.String(), "sha256sum: ", "haul: "), cmd.ProcessState.ExitCode()
	}
	var names, locations []string
	for name := range files {
		names, locations = append(names, name), append(locations, "lab:"+strings.NewReplacer(`\`, `\\`, "*", `\*`).Replace(name))
	}
	for _, flags := range [][]string{{}, {"--tag"}, {"-z"}} {
		want, _, _ := theirs(append(append(flags, "--"), names...)...)
		if got := l.must(append(append([]string{"sum"}, flags...), locations...)...); got != want {
			t.Errorf("%q:\n%swant\n%s", flags, got, want)
		}
	}
	plain, _, _ := theirs(append([]string{"--"}, names...)...)
	tagged, _, _ := theirs(append([]string{"--tag", "--"}, names...)...)
	wrong := fmt.Sprintf("%x  plain\n", sha256.Sum256([]byte("other")))
	missing := fmt.Sprintf("%x  none\n", sha256.Sum256([]byte("")))
	for name, list := range map[string]string{
		"plain.sums": plain, "tagged": tagged, "crlf": strings.ReplaceAll(plain, "\n", "\r\n"), "wrong": wrong + plain + wrong, "bad": "nonsense\n" + plain + "more\n\n# a comment\n",
		"missing": plain + missing, "only-missing": missing, "nothing": "nonsense\n", "empty-list": "",
		"mixed": strings.Replace(plain, "  ", " ", 1), "star": strings.ReplaceAll(plain, "  ", " *"), "one-space": fmt.Sprintf("%x plain\n%[1]x  plain\n", sha256.Sum256([]byte("content"))),
		"short": "abc  plain\n" + plain, "escape": `\` + fmt.Sprintf("%x  back\\xslash\n", sha256.Sum256([]byte(""))) + plain, "no-end": strings.TrimSuffix(plain, "\n"),
	} {
		file := filepath.Join(t.TempDir(), name)
		writeFile(t, file, list)
		for _, flags := range [][]string{{}, {"--quiet"}, {"--status"}, {"--ignore-missing"}, {"--strict"}, {"--warn"}, {"--ignore-missing", "--quiet"}} {
			out, msg, code := theirs(append(append([]string{"--check"}, flags...), file)...)
			args := append(append([]string{"sum", "--algorithm", "sha256"}, flags...), "--check", file)
			for _, where := range [][]string{nil, {"lab:"}} {
				if where != nil && len(flags) > 0 {
					continue // to log in takes time
				}
				gotCode, gotOut, gotMsg := printed(t, l.args(append(args, where...)...))
				if len(where) > 0 || strings.Contains(msg, "No such file") { // words of their own, after the system's
					gotMsg, msg = withoutMissing(gotMsg), withoutMissing(msg)
				}
				if gotOut != out || gotMsg != msg || (gotCode == 0) != (code == 0) {
					t.Errorf("%s, %q, %q: exit code %d, %q, %q; sha256sum's: %d, %q, %q", name, flags, where, gotCode, gotOut, gotMsg, code, out, msg)
				}
			}
		}
	}
}

// printed runs a command, with its errors as main prints them.
func printed(t *testing.T, args []string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		printError(&errs, err)
		code = exitCode(err)
	}
	return code, out.String(), errs.String()
}

// withoutMissing leaves out the lines about a file that is missing.
func withoutMissing(text string) string {
	var kept []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.Contains(line, "o such file") && !strings.Contains(line, "none: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
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
	if code, got, msg := haul(t, "sum", "sub/in"); code != 0 || !strings.HasSuffix(got, "  sub/in\n") {
		t.Errorf("a path here: %q, %s", got, msg)
	}
	if code, _, msg := haul(t, "sum", "sub"); code != exitLocal || !strings.Contains(msg, "-r") {
		t.Errorf("a directory here: exit code %d, %s", code, msg)
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
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, "o such file") && !strings.Contains(line, "none: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// A bucket's own hashes are used where they are of the whole object, and else it is read.
func TestSumS3(t *testing.T) {
	s := startBucket(t)
	s.Put("a", "content")
	want := fmt.Sprintf("%x  a\n", sha256.Sum256([]byte("content")))
	sum := sha256.Sum256([]byte("content"))
	kept := base64.StdEncoding.EncodeToString(sum[:])
	wrong := sha256.Sum256([]byte("parts"))
	for _, c := range []struct {
		sum, mode string
		sent      bool
	}{
		{kept, "FULL_OBJECT", false}, {kept, "", false}, {"", "", true}, {base64.StdEncoding.EncodeToString(wrong[:]) + "-2", "COMPOSITE", true},
		{base64.StdEncoding.EncodeToString(wrong[:]), "COMPOSITE", true}, {"nonsense", "", true}, {kept[:40], "", true},
	} {
		s.SetHook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" && c.sum != "" {
				w.Header().Set("X-Amz-Checksum-Sha256", c.sum)
				w.Header().Set("X-Amz-Checksum-Type", c.mode)
			}
			return false
		})
		before := s.Sent("a")
		code, out, msg := haul(t, "sum", "s3://bucket/a")
		if sent := s.Sent("a") > before; code != 0 || out != want || sent != c.sent {
			t.Errorf("%q of type %q: exit code %d, %q, %s; was the file sent? %v", c.sum, c.mode, code, out, msg, sent)
		}
	}
	before := s.Sent("a")
	if code, out, _ := haul(t, "sum", "--algorithm", "md5", "s3://bucket/a"); code != 0 || out != "9a0364b9e99bb480dd25e1f0284c8555  a\n" || s.Sent("a") != before {
		t.Errorf("by MD5, which is the ETag: exit code %d, %q", code, out)
	}
	list := filepath.Join(t.TempDir(), "list")
	writeFile(t, list, want+fmt.Sprintf("%x  ../a\n", sum)+strings.Replace(want, "  a", "  none", 1))
	if code, out, _ := haul(t, "sum", "--check", list, "s3://bucket/"); code != exitNotFound || out != "a: OK\n../a: OK\nnone: FAILED open or read\n" {
		t.Errorf("a list: exit code %d, %q", code, out)
	}
}

// Flags that do not go together, and lists that cannot be read, are refused.
func TestSumUsage(t *testing.T) {
	l := startLab(t, map[string]string{"a": "A"})
	list := filepath.Join(t.TempDir(), "list")
	writeFile(t, list, fmt.Sprintf("%x  a\n", sha256.Sum256([]byte("A"))))
	for args, want := range map[string]int{
		"": exitUsage, "--algorithm sha3 lab:a": exitUsage, "--quiet lab:a": exitUsage, "--status lab:a": exitUsage, "--strict lab:a": exitUsage, "--warn lab:a": exitUsage,
		"--ignore-missing lab:a": exitUsage, "--tag --check " + list: exitUsage, "--zero --check " + list: exitUsage, "-r --check " + list: exitUsage, "--check " + list + " lab: lab:": exitUsage,
		"--check /none/list lab:": exitLocal, "lab:a local": exitUsage, "tftp://host/a": exitUsage, "--check " + list + " lab:": 0, "--check " + list + " lab:none": exitNotFound,
		"--check " + list + " --algorithm md5 lab:": exitFailed, "--check " + filepath.Dir(list) + " lab:": exitLocal, "lab:a https://host/a": exitUsage,
	} {
		if code, _, msg := l.haul(append([]string{"sum"}, strings.Fields(args)...)...); code != want {
			t.Errorf("sum %s: exit code %d, want %d: %s", args, code, want, msg)
		}
	}
}

// The names in a list lead nowhere but below the location that is said, over HTTP and S3; a
// line that is too long is a bad line.
func TestSumHostileList(t *testing.T) {
	w := startWeb(t, map[string]string{"d/a": "A"})
	sum := fmt.Sprintf("%x  ", sha256.Sum256([]byte("A")))
	list := filepath.Join(t.TempDir(), "list")
	writeFile(t, list, sum+"a\n"+sum+strings.Repeat("x", 70_000)+"\n"+sum+"/a\n"+sum+"\x1b]0;t\x07\n")
	code, out, msg := printed(t, []string{"sum", "--check", list, w.URL + "/d/"})
	if code != exitNotFound || out != "a: OK\n/a: OK\n\x1b]0;t\x07: FAILED open or read\n" || !strings.Contains(msg, "WARNING: 1 line is improperly formatted") || strings.Contains(msg, "\x1b") {
		t.Errorf("exit code %d, %q, %q", code, out, msg)
	}
}

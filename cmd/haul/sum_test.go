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

// sumFiles returns files whose names contain everything that sha256sum escapes.
func sumFiles() map[string]string {
	files := map[string]string{"plain": "content", "empty": "", "two words": "2", "-dash": "3", "*star": "4", "sub/in": "5"}
	if runtime.GOOS != "windows" {
		for _, name := range []string{`back\slash`, "line\nend", " space", "\x1b[31m"} {
			files[name] = name
		}
	}
	return files
}

// Lists are written and checked byte for byte as by sha256sum. The test needs GNU coreutils.
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
					continue // logging in takes time
				}
				gotCode, gotOut, gotMsg := printed(t, l.args(append(args, where...)...))
				// Messages about missing files differ, so do not compare them.
				if len(where) > 0 || strings.Contains(msg, "No such file") {
					gotMsg, msg = withoutMissing(gotMsg), withoutMissing(msg)
				}
				if gotOut != out || gotMsg != msg || (gotCode == 0) != (code == 0) {
					t.Errorf("%s, %q, %q: exit code %d, %q, %q; sha256sum's: %d, %q, %q", name, flags, where, gotCode, gotOut, gotMsg, code, out, msg)
				}
			}
		}
	}
}

// printed runs a command, and returns its errors as main prints them.
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

// withoutMissing removes the lines about a missing file.
func withoutMissing(text string) string {
	var kept []string
	for line := range strings.SplitSeq(text, "\n") {
		if !strings.Contains(line, "o such file") && !strings.Contains(line, "none: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// A bucket's own hash is used if it covers the whole object. Otherwise the object is read.
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

// Over HTTP and S3, the names in a list cannot lead out of the given location. A line that is too
// long counts as malformed.
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

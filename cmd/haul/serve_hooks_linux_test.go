package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/race"
)

// A hookDir is a directory in which hooks store their input.
type hookDir struct {
	t    *testing.T
	path string
}

// newHookDir creates a hookDir, and a program for --hook: a script for sh, which finds the
// directory in $1.
func newHookDir(t *testing.T, script string) (d *hookDir, run string) {
	t.Helper()
	d = &hookDir{t, filepath.Join(t.TempDir(), "hooks")}
	if err := os.Mkdir(d.path, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.path, 0o777); err != nil {
		t.Fatal(err)
	}
	openUp(t, filepath.Dir(d.path))
	program := filepath.Join(filepath.Dir(d.path), "program")
	writeProgram(t, program, "#!/bin/sh\n"+script)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	return d, "run=" + program + " " + d.path
}

// await waits until a hook has stored a file, and returns its content.
func (d *hookDir) await(name string) string {
	d.t.Helper()
	var b []byte
	eventually(d.t, "there is "+name, func() (ok bool) {
		var err error
		b, err = os.ReadFile(filepath.Join(d.path, name))
		return err == nil
	})
	return string(b)
}

// auditLines returns the lines of an audit log. Each must be complete, and as described in
// docs/hooks.md.
func auditLines(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return hookEvents(t, string(text))
}

func hookEvents(t *testing.T, text string) (all []map[string]any) {
	t.Helper()
	schema := readSchema(t, "hooks.md", 10)
	for line := range strings.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q: %v", line, err)
		}
		kind, _ := e["event"].(string)
		schema.object(t, kind, e)
		all = append(all, e)
	}
	return all
}

// awaitAudit waits until the audit log has a line of a kind with these values, and returns it.
func awaitAudit(t *testing.T, path, kind string, want map[string]any) (e map[string]any) {
	t.Helper()
	eventually(t, fmt.Sprint("a line ", kind, " with ", want), func() bool {
		for _, line := range find(auditLines(t, path), kind) {
			fits := true
			for name, value := range want {
				fits = fits && line[name] == value
			}
			if fits {
				e = line
				return true
			}
		}
		return false
	})
	return e
}

func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// Hooks run beside a server that may execute nothing itself, as the user that the server becomes,
// and without its sockets. The audit log records what happened.
func TestServeHooks(t *testing.T) {
	t.Parallel() // it waits most of the time
	d, run := newHookDir(t, `
cat >"$1/new.$HAUL_EVENT"
env >"$1/env.$HAUL_EVENT"
echo $PPID >"$1/helper"
mv "$1/new.$HAUL_EVENT" "$1/$HAUL_EVENT"
`)
	dir := servedDir(t, map[string]string{"kernel": "image"})
	openUp(t, filepath.Dir(dir)) // hooks get only paths that the user of the server can look at
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	c := startSettled(t, dir, "--upload", "create", "--metrics", "127.0.0.1:0", "--audit", audit, "--audit-hash", "sha256", "--hook", "on=uploaded,downloaded,failed "+run)
	c.await("hook: uploaded, downloaded, failed: runs ")
	c.wantGet("kernel", "image")
	e := hookEvents(t, d.await("downloaded"))[0]
	if e["file"] != "kernel" || e["bytes"] != 5.0 || e["protocol"] != "tftp" || e["result"] != "done" || !strings.HasSuffix(e["path"].(string), "/files/kernel") {
		t.Errorf("%v", e)
	}
	c.wantPut("log", "text", 0)
	e = hookEvents(t, d.await("uploaded"))[0]
	if e["file"] != "log" || e["sha256"] != hashOf("text") {
		t.Errorf("%v", e)
	}
	if env := d.await("env.uploaded"); !strings.Contains(env, "HAUL_SHA256="+hashOf("text")+"\n") || !strings.Contains(env, "HAUL_FILE=log\n") || strings.Contains(env, peekVar) {
		t.Errorf("%s", env)
	}
	c.wantNoGet("none", exitNotFound)
	awaitAudit(t, audit, "downloaded", map[string]any{"file": "kernel", "bytes": 5.0})
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "log", "sha256": hashOf("text")})
	awaitAudit(t, audit, "refused", map[string]any{"file": "none"})
	c.wantMetric(`haul_hook_runs_total{result="done"} 2`)
	// A repeated request for a missing file is refused again.
	c.awaitPage("/metrics", "as many lines of the audit log as there are", func(status int, body string) bool {
		lines, err := os.ReadFile(audit)
		return err == nil && status == http.StatusOK && strings.Contains(body, fmt.Sprintf("\nhaul_audit_lines_total %d\n", strings.Count(string(lines), "\n")))
	})
	c.wantMetric(`haul_audit_hashes_total{result="done"} 1`)
	c.wantSettled() // it still may run nothing

	helper, err := strconv.Atoi(strings.TrimSpace(d.await("helper")))
	if err != nil {
		t.Fatal(err)
	}
	wantHelper(t, helper)
	if err := syscall.Kill(helper, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.wantMetric(`haul_hook_helper_restarts_total 1`)
	if err := os.Remove(filepath.Join(d.path, "uploaded")); err != nil {
		t.Fatal(err)
	}
	c.wantPut("log2", "text", 0)
	d.await("uploaded")
	c.wantMetric(`haul_hook_runs_total{result="done"} 3`)
	c.stop()
	eventually(t, "the helper has ended", func() bool {
		now, err := strconv.Atoi(strings.TrimSpace(d.await("helper")))
		return err == nil && now != helper && syscall.Kill(now, 0) != nil
	})
}

// wantHelper checks what the process that runs hooks may do: no more than the user, and its only
// sockets lead to the server.
func wantHelper(t *testing.T, pid int) {
	t.Helper()
	if os.Geteuid() != 0 {
		return // it is hidden
	}
	wantThreads(t, pid, nobody, nobody, "")
	inet := ""
	for _, name := range []string{"tcp", "tcp6", "udp", "udp6"} {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		inet += string(b)
	}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	sockets := 0
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(fds, e.Name()))
		inode, isSocket := strings.CutPrefix(target, "socket:[")
		if err != nil || !isSocket {
			continue
		}
		sockets++
		if strings.Contains(inet, " "+strings.TrimSuffix(inode, "]")+" ") {
			t.Errorf("the helper has %s of the server", target)
		}
	}
	if sockets == 0 || sockets > 4 {
		t.Errorf("the helper has %d sockets", sockets)
	}
}

// A hook's program runs as the same user as the server, the helper, the supervisor and the spawner.
// It cannot read the environment, the memory or the descriptors of any of them.
func TestServeHooksHidden(t *testing.T) {
	t.Parallel() // it waits most of the time
	starts := map[string]*syscall.SysProcAttr{"as it is": nil}
	if os.Geteuid() == 0 {
		exe, err := os.Executable()
		if err := errors.Join(err, openUpTo(exe)); err != nil { // so that the spawner can run it
			t.Fatal(err)
		}
		starts["without root"] = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	for name, attr := range starts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, run := newHookDir(t, `
parent() { read -r _ _ _ parent _ <"/proc/$1/stat"; echo "$parent"; }
helper=$PPID
supervisor=$(parent "$helper")
server=$(parent "$supervisor")
sleep 1000 <&- >&- 2>&- &
for process in child=$! helper=$helper supervisor=$supervisor server=$server $(sed 's/[0-9]*/below-server=&/g' /proc/$server/task/*/children); do
	proc=/proc/${process#*=}
	echo "found ${process%=*}"
	cat $proc/environ >"$1/read" 2>&- && echo "read environ of ${process%=*}"
	ls $proc/fd/ >"$1/read" 2>&- && echo "read fd of ${process%=*}"
	(: <$proc/mem) 2>&- && echo "read mem of ${process%=*}"
done >"$1/new"
mv "$1/new" "$1/done"
`)
			dir := servedDir(t, map[string]string{"kernel": "image"})
			openUp(t, dir)
			args := []string{"--restartable", "--hook", "on=downloaded " + run, dir}
			if attr == nil && os.Geteuid() == 0 {
				args = append(args, "--user", fmt.Sprintf("%d:%d", nobody, nobody))
			}
			c := startChild(t, childOptions{attr: attr}, args...)
			c.wantGet("kernel", "image")
			got := d.await("done")
			for _, line := range []string{"found helper", "found supervisor", "found server", "found below-server", "read environ of child", "read fd of child"} {
				if !strings.Contains(got, line+"\n") {
					t.Errorf("%q is missing in %q", line, got) // otherwise the rest proves nothing
				}
			}
			for line := range strings.Lines(got) {
				if strings.HasPrefix(line, "read ") && !strings.HasSuffix(line, " child\n") {
					t.Errorf("a hook can %s", line)
				}
			}
			c.stop()
		})
	}
}

// If the supervisor is killed, a metric shows it until a reload has started another one. The
// processes for hooks end when the server is killed.
func TestServeHooksKilled(t *testing.T) {
	t.Parallel() // it waits most of the time
	d, run := newHookDir(t, `
read -r _ _ _ supervisor _ <"/proc/$PPID/stat"
read -r _ _ _ server _ <"/proc/$supervisor/stat"
echo "$PPID $supervisor $server" >"$1/new"
mv "$1/new" "$1/processes"
`)
	dir := servedDir(t, map[string]string{"kernel": "image"})
	c := startSettled(t, "--restartable", "--metrics", "127.0.0.1:0", "--hook", "on=downloaded "+run, dir)
	processes := func() (helper, supervisor, server int) {
		t.Helper()
		_ = os.Remove(filepath.Join(d.path, "processes"))
		c.wantGet("kernel", "image")
		if _, err := fmt.Sscan(d.await("processes"), &helper, &supervisor, &server); err != nil {
			t.Fatal(err)
		}
		return helper, supervisor, server
	}
	kill := func(pid int) {
		t.Helper()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	helper, supervisor, _ := processes()
	c.wantMetric("haul_hook_supervisor_up 1")
	kill(supervisor)
	c.wantMetric("haul_hook_supervisor_up 0")
	c.await("level=ERROR", "the supervisor has died")
	kill(helper)
	eventually(t, "a hook is lost", func() bool {
		c.wantGet("kernel", "image")
		_, metrics := c.scrape("/metrics")
		return !strings.Contains(metrics, "\nhaul_hook_runs_lost_total 0\n")
	})
	c.signal(syscall.SIGUSR2)
	successor := c.succeeded(1)
	c.wantMetric("haul_hook_supervisor_up 1")
	helper, supervisor, server := processes()
	if server != successor {
		t.Errorf("hooks are run for process %d, want %d", server, successor)
	}
	kill(successor)
	c.awaitEnd(supervisor)
	c.awaitEnd(helper)
}

// The audit log has logins, changes and refusals over SFTP and HTTP, and they start hooks.
func TestServeAuditLogins(t *testing.T) {
	t.Parallel() // it waits most of the time
	d, run := newHookDir(t, `cat >"$1/new.$HAUL_EVENT"; mv "$1/new.$HAUL_EVENT" "$1/$HAUL_EVENT"`)
	dir := servedDir(t, nil)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s := startSettledSFTP(t, dir, "--http", "127.0.0.1:0", "--upload", "overwrite", "--audit", audit, "--audit-hash", "sha256", "--hook", "on=login,login_failed "+run)
	s.wantNoLogin(s.as("mallory\n\x1b[2J", ssh.Password("wrong")))
	e := hookEvents(t, d.await("login_failed"))[0]
	if e["user"] != "mallory\n\x1b[2J" || e["method"] != "password" {
		t.Errorf("%v", e)
	}
	f := s.files(s.once())
	if e := hookEvents(t, d.await("login"))[0]; e["user"] != "haul" || e["protocol"] != "sftp" {
		t.Errorf("%v", e)
	}
	ctx := t.Context()
	for _, name := range []string{"plain", "new\nline", "$(touch pwned)", "caf\xe9"} {
		f.wantWrite(name, name+" content")
	}
	f.want("mkdir", f.Mkdir(ctx, "sub", 0o755))
	f.want("rename", f.Rename(ctx, "plain", "sub/moved"))
	f.want("remove", f.Remove(ctx, "new\nline"))
	if _, err := f.read("none"); err == nil {
		t.Error("it has a file that there is not")
	}
	url := "http://" + wordAfter(s.await(" on http://", "\n"), " on http://")
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, strings.TrimSuffix(url, "/")+"/web", strings.NewReader("by http"))
	if err != nil {
		t.Fatal(err)
	}
	remove, err := http.NewRequestWithContext(ctx, http.MethodDelete, strings.TrimSuffix(url, "/")+"/web", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*http.Request{put, remove} {
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	awaitAudit(t, audit, "login_failed", map[string]any{"user": "mallory\n\x1b[2J"})
	awaitAudit(t, audit, "login", map[string]any{"user": "haul", "method": "password"})
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "/plain", "user": "haul", "sha256": hashOf("plain content")})
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "/$(touch pwned)"})
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "/caf\ufffd", "file_bytes": "L2NhZuk="})
	awaitAudit(t, audit, "changed", map[string]any{"operation": "mkdir", "file": "/sub", "result": "done"})
	awaitAudit(t, audit, "changed", map[string]any{"operation": "rename", "file": "/plain", "to": "/sub/moved"})
	awaitAudit(t, audit, "changed", map[string]any{"operation": "remove", "file": "/new\nline"})
	awaitAudit(t, audit, "changed", map[string]any{"operation": "open", "file": "/none", "result": "failed"})
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "/web", "protocol": "http", "sha256": hashOf("by http"), "status": 201.0})
	// Nobody has logged in.
	awaitAudit(t, audit, "changed", map[string]any{"operation": "remove", "file": "/web", "protocol": "http", "result": "refused"})
	s.wantSettled()
	s.stop()
}

// When logrotate renames the log, haul continues in a new file, as the user that it has become. A
// killed process leaves complete lines, and the next one appends to them.
func TestServeAuditRotated(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir, logs := servedDir(t, map[string]string{"kernel": "image"}), servedDir(t, nil)
	openUp(t, logs)
	audit := filepath.Join(logs, "audit.jsonl")
	other := filepath.Join(logs, "other.log")
	writeFile(t, other, "")
	if err := os.Chmod(other, 0o666); err != nil {
		t.Fatal(err)
	}
	c := startSettled(t, dir, "--audit", audit)
	c.await("a bug in haul could overwrite", "other.log")
	c.wantGet("kernel", "image")
	awaitAudit(t, audit, "downloaded", nil)
	if err := os.Rename(audit, audit+".1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new file", func() bool {
		c.wantGet("kernel", "image")
		_, err := os.Stat(audit)
		return err == nil
	})
	awaitAudit(t, audit, "downloaded", nil)
	c.wantSettled()
	c.signal(syscall.SIGKILL)
	c.waitEnded()
	before := len(auditLines(t, audit))
	c = startSettled(t, dir, "--audit", audit)
	c.wantGet("kernel", "image")
	eventually(t, "one more line", func() bool { return len(auditLines(t, audit)) == before+1 })
	c.stop()
}

// The hashes of thousands of concurrent uploads over three protocols match the sent data.
func TestServeAuditHashes(t *testing.T) {
	t.Parallel() // it waits most of the time
	each := race.Fewer(1000, 10)
	if testing.Short() {
		each = 50
	}
	local := t.TempDir()
	want := map[string]string{}
	for i := range each {
		content := bytes.Repeat([]byte{byte(i), byte(i >> 8)}, i%3000)
		name := fmt.Sprintf("f%d", i)
		want[name] = hashOf(string(content))
		writeFile(t, filepath.Join(local, name), string(content))
	}
	names, err := filepath.Glob(local + "/*")
	if err != nil {
		t.Fatal(err)
	}
	dir := servedDir(t, nil)
	for _, protocol := range []string{"tftp", "sftp", "http"} {
		sub := filepath.Join(dir, protocol)
		if err := os.Mkdir(sub, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(sub, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s := startSettledSFTP(t, dir, "--tftp", "127.0.0.1:0", "--http", "127.0.0.1:0", "--rate", "-1", "--upload", "overwrite", "--no-fsync", "--audit", audit, "--audit-hash", "sha256")
	said := s.await(" on sftp://", "over TFTP")
	tftp, web := wordAfter(said, " on tftp://"), wordAfter(said, " on http://")
	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, s.password+"\n")
	if err := os.Chmod(password, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 3)
	for target, flags := range map[string][]string{
		"tftp://" + tftp + "/tftp/":      nil,
		"sftp://haul@" + s.at + "/sftp/": {"--password-file", password, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"},
		"http://" + web + "/http/":       nil,
	} {
		go func() {
			args := append(append([]string{"put", "-q"}, flags...), names...)
			code, _, errs := haul(t, append(args, target)...)
			if done <- errs; code == 0 {
				return
			}
			t.Errorf("%s: exit code %d, %s", target, code, errs)
		}()
	}
	for range 3 {
		<-done
	}
	var lines []map[string]any
	eventually(t, "all lines", func() bool {
		lines = find(auditLines(t, audit), "uploaded")
		return len(lines) >= 3*each
	})
	count := map[string]int{}
	for _, e := range lines {
		name := filepath.Base(e["file"].(string))
		protocol := e["protocol"].(string)
		count[protocol]++
		if e["sha256"] != want[name] {
			t.Errorf("%s of %s: %v, want %s", protocol, name, e, want[name])
		}
	}
	if count["tftp"] != each || count["sftp"] != each || count["http"] != each {
		t.Errorf("%v", count)
	}
	var there int
	if err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			there++
		}
		return err
	}); err != nil || there != 3*each {
		t.Errorf("%d files are there, %v", there, err)
	}
	s.stop()
}

// A reload starts again with the hooks of the file, and with a new audit log if the old one was
// renamed. The processes of the old hooks end.
func TestReloadHooks(t *testing.T) {
	t.Parallel() // it waits most of the time
	d, run := newHookDir(t, `echo $PPID >"$1/new"; mv "$1/new" "$1/$2"`)
	_, run, _ = strings.Cut(run, "run=")
	program, target, _ := strings.Cut(run, " ")
	dir, logs := servedDir(t, nil), t.TempDir()
	audit := filepath.Join(logs, "audit.jsonl")
	file := filepath.Join(t.TempDir(), "haul.toml")
	set := func(word string) {
		writeFile(t, file, fmt.Sprintf("dirs = [%q]\ntftp = {listen = [\"127.0.0.1:0\"]}\nfiles = {upload = \"overwrite\"}\nlog = {audit = %q}\n[[hook]]\non = [\"uploaded\"]\nrun = [%q, %q, %q]\n",
			dir, audit, program, target, word))
	}
	set("first")
	args := []string{"serve", "--config", file}
	if os.Geteuid() == 0 {
		args = append(args, "--user", fmt.Sprintf("%d:%d", nobody, nobody))
	}
	c := runChild(t, childOptions{}, args...)
	c.awaitURL()
	c.wantPut("a", "text", 0)
	helper, err := strconv.Atoi(strings.TrimSpace(d.await("first")))
	if err != nil {
		t.Fatal(err)
	}
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "a"})
	if err := os.Rename(audit, audit+".1"); err != nil {
		t.Fatal(err)
	}
	set("second")
	c.signal(syscall.SIGHUP)
	next := c.succeeded(1)
	c.awaitEnd(c.cmd.Process.Pid)
	c.wantPut("b", "text", 0)
	d.await("second")
	awaitAudit(t, audit, "uploaded", map[string]any{"file": "b"})
	eventually(t, "the first helper has ended", func() bool { return syscall.Kill(helper, 0) != nil })
	if err := syscall.Kill(next, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.wantExit(0)
}

// The confined server may not connect to anything; its helper posts signed events.
func TestServeHookPosts(t *testing.T) {
	t.Parallel() // it waits most of the time
	const secret = "0123456789abcdef"
	type post struct{ signature, body string }
	posts := make(chan post, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posts <- post{r.Header.Get("Haul-Signature"), string(body)}
	}))
	defer receiver.Close()
	key := filepath.Join(t.TempDir(), "key") // the server's user cannot read it
	writeFile(t, key, secret+"\n")
	if err := os.Chmod(key, 0o600); err != nil {
		t.Fatal(err)
	}
	c := startSettled(t, servedDir(t, map[string]string{"kernel": "image"}), "--hook", "on=downloaded key="+key+" url="+receiver.URL+"/in")
	c.wantGet("kernel", "image")
	select {
	case p := <-posts:
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(p.body))
		if p.signature != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
			t.Errorf("the signature is %s", p.signature)
		}
		if e := hookEvents(t, p.body)[0]; e["event"] != "downloaded" || e["file"] != "kernel" {
			t.Errorf("%v", e)
		}
	case <-time.After(patience):
		t.Fatal("nothing is posted")
	}
	c.wantSettled()
	c.stop()
}

//go:build unix

package hooks

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/system/fdline"
)

// TestMain lets this program run as the supervisor or the helper that it starts.
func TestMain(m *testing.M) {
	if run, is := IsHelper(); is {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// patience is how long a test waits for an expected event.
const patience = MaxTimeout

// eventually waits until ok returns true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still not: ", what)
		}
	}
}

// A logBuffer is a log that a test can read.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A rig is a queue with one hook: a shell script whose $1 is a directory.
type rig struct {
	*Queue
	t   *testing.T
	dir string
	log logBuffer
}

func newRig(t *testing.T, timeout time.Duration, script string) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	program := filepath.Join(r.dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := Hook{On: activity.HookKinds, Run: []string{"/bin/sh", program, r.dir}, Timeout: timeout}
	var err error
	r.Queue, err = Start(Config{Hooks: []Hook{hook}, Env: os.Environ(), Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	closed := sync.OnceFunc(r.Queue.Close)
	t.Cleanup(func() {
		closed()
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func (r *rig) read(name string) string {
	b, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil {
		return ""
	}
	return string(b)
}

// await waits until n runs have a result.
func (r *rig) await(result string, n int64) {
	r.t.Helper()
	i := slices.Index(results[:], result)
	eventually(r.t, fmt.Sprint(n, " runs ", result), func() bool { return r.results[i].Load() >= n })
}

// alive reports whether the process whose ID is in a file is running.
func (r *rig) alive(name string) bool {
	pid, err := strconv.Atoi(strings.TrimSpace(r.read(name)))
	if err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if runtime.GOOS != "linux" || err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") // a zombie has ended
}

var hostile = map[string]string{
	"new line":  "a\nHAUL_USER=root\nb",
	"shell":     "$(touch pwned) `id`; rm -rf * | cat 'x\" && \\",
	"option":    "--help",
	"4 KB":      strings.Repeat("n", 4<<10),
	"not UTF-8": "caf\xe9\xff",
	"control":   "\x1b[2J\x07\x7f",
	"longer":    strings.Repeat("é", 3<<10) + "x",
}

// A program gets the event on standard input and in its environment, whatever the name is.
func TestProgram(t *testing.T) {
	t.Parallel() // it waits most of the time
	for what, name := range hostile {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 0, `cat >"$1/event" && printf %s "$HAUL_FILE" >"$1/file" && env >"$1/env"`)
			n := int64(7)
			sum := activity.Sum("abc")
			path, err := filepath.EvalSymlinks(filepath.Join(r.dir, "program"))
			if err != nil {
				t.Fatal(err)
			}
			r.Send(activity.Event{Event: activity.Uploaded, Time: time.Now(), Protocol: "sftp", Result: "done", Peer: "192.0.2.1:5", User: "alice", File: name, Path: path, Bytes: &n, Digest: activity.Digest{SHA256: &sum}})
			r.await("done", 1)
			var got struct {
				Event, File, Peer, User, SHA256 string
				Bytes                           int64
				Cut                             bool
				Exact                           []byte `json:"file_bytes"`
			}
			text := r.read("event")
			if err := json.Unmarshal([]byte(text), &got); err != nil || strings.Count(text, "\n") != 1 {
				t.Fatalf("%q: %v", text, err)
			}
			want := name[:min(len(name), 4<<10)]
			if exact := string(got.Exact); got.File != want && exact != want {
				t.Errorf("the file is %q, exactly %q", got.File, exact)
			}
			if r.read("file") != want || got.Cut != (len(name) > 4<<10) {
				t.Errorf("HAUL_FILE is %q, cut %v", r.read("file"), got.Cut)
			}
			if got.Event != "uploaded" || got.Peer != "192.0.2.1:5" || got.User != "alice" || got.Bytes != 7 || got.SHA256 != "abc" {
				t.Errorf("%+v", got)
			}
			for _, v := range []string{"HAUL_EVENT=uploaded", "HAUL_PROTOCOL=sftp", "HAUL_PATH=" + path, "HAUL_PEER=192.0.2.1:5", "HAUL_USER=alice", "HAUL_BYTES=7", "HAUL_SHA256=abc", "HAUL_RESULT=done"} {
				if !strings.Contains("\n"+r.read("env"), "\n"+v+"\n") {
					t.Errorf("%s is missing in %s", v, r.read("env"))
				}
			}
			if _, err := os.Stat("/pwned"); err == nil {
				t.Error("a name was run")
			}
		})
	}
}

// A path that leads to another file when the hook begins reaches neither the variable nor the event.
func TestPathReplaced(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, 0, `cat >"$1/event"; printf "<%s>" "$HAUL_PATH" >"$1/path"`)
	path := filepath.Join(r.dir, "file")
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	r.Send(activity.Event{Event: activity.Downloaded, File: "file", Path: path})
	r.await("done", 1)
	if r.read("path") != "<>" || !strings.Contains(r.read("event"), `"file":"file"`) || strings.Contains(r.read("event"), `"path"`) {
		t.Errorf("%q, %q", r.read("path"), r.read("event"))
	}
}

// If a name has a zero byte, which no variable can contain, the program runs without the variable.
func TestZeroByte(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, 0, `cat >"$1/event"; printf "<%s>" "$HAUL_FILE" >"$1/file"`)
	r.Send(activity.Event{Event: activity.Failed, File: "a\x00b"})
	r.await("done", 1)
	if r.read("file") != "<>" || !strings.Contains(r.read("event"), `"file":"a\u0000b"`) {
		t.Errorf("%q, %q", r.read("file"), r.read("event"))
	}
}

// Passwords in the server's environment are passed neither to programs nor to the helper processes.
// The variables that name a proxy for posts are passed on.
func TestEnvironment(t *testing.T) {
	t.Setenv("HAUL_TEST_SECRET", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("https_proxy", "http://proxy:3128")
	r := newRig(t, 0, `env >"$1/env"; pwd >"$1/pwd"; read -r _ _ _ supervisor _ </proc/$PPID/stat; echo $PPID >"$1/helper"; echo $supervisor >"$1/supervisor"; exit 0`)
	r.Send(activity.Event{Event: activity.Boot})
	r.await("done", 1)
	if strings.Contains(r.read("env"), "secret") || !strings.Contains(r.read("env"), "PATH=") || r.read("pwd") != "/\n" {
		t.Errorf("%s in %s", r.read("env"), r.read("pwd"))
	}
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return // there is no /proc, or the processes are hidden
	}
	for _, process := range []string{"helper", "supervisor"} {
		env, err := os.ReadFile("/proc/" + strings.TrimSpace(r.read(process)) + "/environ")
		if err != nil {
			t.Fatal(err)
		}
		if env := string(env); strings.Contains(env, "secret") || !strings.Contains(env, roleVar+"="+process) || !strings.Contains(env, "https_proxy=http://proxy:3128") {
			t.Errorf("the %s has %q", process, env)
		}
	}
}

// A server that somebody has taken over can send the helper any text. The most that it can choose is
// the values of the nine variables, and the event on standard input: not the program, its arguments,
// its user, or another variable.
func TestTakenOverServer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"+`cat >"$1/event"; echo "$@" >"$1/arguments"; exec env >"$1/env"`), 0o600); err != nil {
		t.Fatal(err)
	}
	hook := Hook{On: activity.HookKinds, Run: []string{"/bin/sh", program, dir}}
	r := &runner{setup: setup{Hooks: []Hook{hook}, Keys: [][]byte{nil}, Env: []string{"PATH=/usr/bin:/bin"}}, killTime: killTime, wait: (*exec.Cmd).Wait}
	server, helper, err := fdline.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	line, err := fdline.Of(helper)
	if err != nil {
		t.Fatal(err)
	}
	helper.Close()
	go r.serve(line)
	answers := bufio.NewReader(server)
	send := func(order string) (result outcome) {
		t.Helper()
		if _, err := io.WriteString(server, order+"\n"); err != nil {
			t.Fatal(err)
		}
		text, err := answers.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(text, &result)
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	bytes := func(text string) string { return strconv.Quote(base64.StdEncoding.EncodeToString([]byte(text))) }
	for _, order := range []string{
		`{"Hook":0,"Variables":[` + bytes("BASH_FUNC_cat%%=() { touch pwned; }") + `]}`, // each variable with its name
		`{"Hook":1}`, `{"Hook":-1}`, `{"Hook":"0"}`, `{`, ``, `[]`,
	} {
		if got := send(order); got.Result != "failed" {
			t.Errorf("%s: %+v", order, got)
		}
		if _, err := os.Stat(filepath.Join(dir, "env")); err == nil {
			t.Errorf("%s: the program has run", order)
		}
	}
	order := `{"Hook":0,"Event":` + bytes("event") + `,"Run":["/bin/false"],"Env":["A=1"],"User":{"UID":0},"Variables":{` +
		`"Event":` + bytes("\nB=1") + `,"File":` + bytes("f\x00C=1") + `,"Path":` + bytes(strings.Repeat("p", 9000)) +
		`,"LD_PRELOAD":` + bytes("evil.so") + `,"ENV":` + bytes("evil") + `,"User\u0000D":` + bytes("1") + `}}`
	if got := send(order); got.Result != "done" {
		t.Fatalf("%+v", got)
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if read("event") != "event" || read("arguments") != dir+"\n" {
		t.Errorf("event %q, arguments %q", read("event"), read("arguments"))
	}
	shell := []string{"PWD=/", "OLDPWD=/", "SHLVL=0", "SHLVL=1", "_=/usr/bin/env", "_=/bin/env"} // the shell itself sets these
	want := []string{
		"HAUL_EVENT=", "B=1", // the second line of HAUL_EVENT
		"HAUL_PROTOCOL=", "HAUL_RESULT=", "HAUL_FILE=", "HAUL_PATH=" + strings.Repeat("p", 4<<10),
		"HAUL_PEER=", "HAUL_USER=", "HAUL_BYTES=", "HAUL_SHA256=", "PATH=/usr/bin:/bin",
	}
	got := slices.DeleteFunc(strings.Split(strings.TrimSpace(read("env")), "\n"), func(v string) bool { return slices.Contains(shell, v) })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the program has the variables\n%q, want\n%q", got, want)
	}
}

// A program has only the standard descriptors, whichever others haul has inherited.
func TestDescriptors(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no /proc")
	}
	left, err := syscall.Dup(int(os.Stderr.Fd())) // Dup does not set close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(left) })
	r := newRig(t, 0, `exec ls /proc/self/fd >"$1/descriptors"`)
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 1)
	if got := r.read("descriptors"); got != "0\n1\n2\n3\n" { // ls itself uses 3
		t.Errorf("a program has the descriptors %q", got)
	}
}

// A program that hangs is killed at its time limit, with all processes that it has started.
func TestHang(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, time.Second, `sleep 1000 & echo $! >"$1/child"; echo $$ >"$1/self"; trap "" TERM INT HUP; wait; sleep 1000`)
	r.Send(activity.Event{Event: activity.Uploaded, File: "f"})
	r.await("timeout", 1)
	for _, name := range []string{"child", "self"} {
		eventually(t, name+" has ended", func() bool { return !r.alive(name) })
	}
	eventually(t, "logged", func() bool {
		return strings.Contains(r.log.String(), "timeout") && strings.Contains(r.log.String(), "file=f")
	})
}

// A program that was killed but waits for a disk does not block its line: the next event is run.
// With maxStuck such programs, no further one is started.
func TestStuck(t *testing.T) {
	t.Parallel() // it waits most of the time
	release, left := make(chan struct{}), make(chan *exec.Cmd, maxStuck)
	r := &runner{killTime: time.Millisecond, wait: func(cmd *exec.Cmd) error {
		switch {
		case slices.Contains(cmd.Args, "hangs"):
			<-release
		case slices.Contains(cmd.Args, "leaves"):
			left <- cmd // as if another process of its group were the only one
			return nil
		}
		return cmd.Wait()
	}}
	sleep := func(what string) Hook {
		return Hook{Run: []string{"/bin/sh", "-c", "exec sleep 1000", what}, Timeout: time.Millisecond}
	}
	r.Hooks = []Hook{sleep("hangs"), sleep("leaves"), {Run: []string{"/bin/sh", "-c", ":"}}}
	ours, theirs := net.Pipe()
	served := make(chan struct{})
	go func() { defer close(served); r.serve(theirs) }()
	answers := json.NewDecoder(ours)
	run := func(hook int) (o outcome) {
		t.Helper()
		if err := json.NewEncoder(ours).Encode(order{Hook: hook}); err != nil {
			t.Fatal(err)
		}
		if err := answers.Decode(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for i := range maxStuck {
		if o := run(2); o.Result != "done" {
			t.Fatalf("%+v", o)
		}
		if o := run(i % 2); o.Result != "stuck" {
			t.Fatalf("%+v", o)
		}
	}
	if o := run(2); o.Result != "failed" || !strings.Contains(o.Error, "16 programs") {
		t.Errorf("%+v", o)
	}
	close(release)
	for range maxStuck / 2 {
		_ = (<-left).Wait() // it was killed
	}
	eventually(t, "they have ended", func() bool { return r.stuck.Load() == 0 })
	if o := run(2); o.Result != "done" {
		t.Errorf("%+v", o)
	}
	_ = ours.Close()
	<-served
}

// The size of an error that a receiver of posts causes is bounded.
func TestLongAnswer(t *testing.T) {
	t.Parallel() // it waits most of the time
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 403 %s\r\nContent-Length: 0\r\n\r\n", strings.Repeat("n", maxAnswer/2))
		}
	}()
	r := &runner{setup: setup{Hooks: []Hook{{URL: "http://" + l.Addr().String()}}, Keys: make([][]byte, 1)}}
	if o := r.do(order{Event: []byte("{}\n")}); o.Result != "failed" || len(o.Error) != maxError || !strings.Contains(o.Error, "403 nnn") {
		t.Errorf("%s: %d bytes, %.100s", o.Result, len(o.Error), o.Error)
	}
}

// Processes that a program leaves running are killed with it, and do not block anything by holding
// its output.
func TestFork(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, 0, `sleep 1000 & echo $! >"$1/child"; exit 0`)
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 1)
	eventually(t, "the child has ended", func() bool { return !r.alive("child") })
}

// The supervisor reaps processes that have left their group. As process 1 of a container the server
// would not, and they would stay forever.
func TestOrphan(t *testing.T) {
	t.Parallel() // it waits most of the time
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lets a process adopt others")
	}
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip(err)
	}
	r := newRig(t, 0, `setsid sleep 1000 <&- >&- 2>&- & echo $! >"$1/orphan"; echo $PPID >"$1/helper"; while ! [ "$(cut -d' ' -f6 /proc/$!/stat)" = $! ]; do sleep 0.01; done`)
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 1)
	stat := func(name string, field int) string { // a field of proc(5), from the third on
		b, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", strings.TrimSpace(r.read(name))))
		if err != nil {
			return ""
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		return strings.Fields(rest)[field-3]
	}
	const parent = 4
	if !r.alive("orphan") || stat("orphan", parent) != stat("helper", parent) {
		t.Fatalf("the orphan is a child of %s, and the helper of %s", stat("orphan", parent), stat("helper", parent))
	}
	pid, err := strconv.Atoi(strings.TrimSpace(r.read("orphan")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left of it", func() bool { return stat("orphan", parent) == "" })
}

// A program may close its input, and fail; the end of its output is logged.
func TestCloses(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newRig(t, 0, `exec <&-; echo first; head -c 100000000 /dev/zero | tr '\0' x; echo; echo last words >&2; exit 3`)
	r.Send(activity.Event{Event: activity.Uploaded, File: strings.Repeat("\x01", 4<<10), Path: strings.Repeat("\x01", 4<<10), To: strings.Repeat("\x01", 4<<10)})
	r.await("failed", 1)
	eventually(t, "logged", func() bool { return strings.Contains(r.log.String(), "last words") })
	if said := r.log.String(); !strings.Contains(said, "exit status 3") || strings.Contains(said, "first") || strings.Count(said, "xxxx") > maxOutput {
		t.Errorf("%.300q", said)
	}
}

// A gigabyte of output is read and dropped.
func TestGigabyte(t *testing.T) {
	t.Parallel() // it waits most of the time
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	r := newRig(t, MaxTimeout, `head -c 1073741824 /dev/zero`)
	r.Send(activity.Event{Event: activity.Uploaded})
	r.await("done", 1)
}

// Events that do not fit into the queue are counted and logged, and nothing blocks.
func TestOverflow(t *testing.T) {
	t.Parallel() // it waits most of the time
	const more = 100
	r := newRig(t, 0, `while ! [ -e "$1/go" ]; do sleep 0.05; done; echo "$HAUL_FILE" >>"$1/ran"`)
	for i := range maxRunning {
		r.Send(activity.Event{Event: activity.Uploaded, File: "first" + strconv.Itoa(i)})
	}
	eventually(t, "they run", func() bool { return r.running.Load() == maxRunning }) // so the queue is empty
	for i := range maxQueue + more {
		r.Send(activity.Event{Event: activity.Login, File: strconv.Itoa(i)})
	}
	if lost := r.lost.Load(); lost != more {
		t.Errorf("%d are lost, want %d", lost, more)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.await("done", maxRunning+maxQueue)
	eventually(t, "logged", func() bool { return strings.Contains(r.log.String(), "too many wait") })
}

// Events that wait when the server ends are run, and the processes end.
func TestClose(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := &rig{t: t, dir: t.TempDir()}
	hook := Hook{On: activity.HookKinds, Run: []string{"/bin/sh", "-c", `echo $PPID >"$0/helper-$HAUL_FILE"`, r.dir}}
	q, err := Start(Config{Hooks: []Hook{hook}, Env: os.Environ(), Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		q.Send(activity.Event{Event: activity.Uploaded, File: strconv.Itoa(i)})
	}
	q.Close()
	q.Send(activity.Event{Event: activity.Uploaded, File: "late"})
	if done, lost := q.results[0].Load(), q.lost.Load(); done != 20 || lost != 1 {
		t.Errorf("%d are run, %d lost", done, lost)
	}
	eventually(t, "the helper has ended", func() bool { return !r.alive("helper-7") })
}

// Hooks that run longer than the server waits end by themselves, and the log shows their number.
// Waiting ones are not run.
func TestCloseRunning(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := &rig{t: t, dir: t.TempDir()}
	hook := Hook{On: activity.HookKinds, Run: []string{"/bin/sh", "-c", `: >"$0/began-$HAUL_FILE"; while ! [ -e "$0/go" ]; do sleep 0.05; done; : >"$0/ended-$HAUL_FILE"`, r.dir}}
	q, err := Start(Config{Hooks: []Hook{hook}, Env: os.Environ(), Log: slog.New(slog.NewTextHandler(&r.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	there := func(name string) bool { _, err := os.Stat(filepath.Join(r.dir, name)); return err == nil }
	for i := range maxRunning {
		q.Send(activity.Event{Event: activity.Uploaded, File: strconv.Itoa(i)})
		eventually(t, "it runs", func() bool { return there("began-" + strconv.Itoa(i)) })
	}
	q.Send(activity.Event{Event: activity.Uploaded, File: "waits"})
	q.close(time.Millisecond)
	if said := r.log.String(); !strings.Contains(said, fmt.Sprint("runs=", maxRunning)) || q.lost.Load() != 1 {
		t.Errorf("%d are lost: %s", q.lost.Load(), said)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range maxRunning {
		eventually(t, "it ends", func() bool { return there("ended-" + strconv.Itoa(i)) })
	}
}

// A missing program or key is an error before anything is served.
func TestStartErrors(t *testing.T) {
	dir := t.TempDir()
	short, plain := filepath.Join(dir, "key"), filepath.Join(dir, "plain")
	if err := os.WriteFile(short, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, h := range map[string]Hook{
		"program " + filepath.Join(dir, "none") + ": no such file": {Run: []string{filepath.Join(dir, "none")}},
		"chmod +x":      {Run: []string{plain}},
		"not a regular": {Run: []string{dir}},
		"needs 16":      {URL: "http://127.0.0.1/", Key: short},
		"read the key":  {URL: "http://127.0.0.1/", Key: filepath.Join(dir, "none")},
	} {
		if err := CheckFiles([]Hook{h}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if q, err := Start(Config{Hooks: []Hook{h}, Log: slog.New(slog.DiscardHandler)}); err == nil {
			q.Close()
			t.Errorf("it starts without: %s", want)
		}
	}
}

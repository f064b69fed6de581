package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	module "github.com/haul-project/haul"
	"github.com/haul-project/haul/cmd/haul/internal/boot/proxydhcp"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/s3test"
)

// TestScript runs the scripts in testdata/script, which contain commands as users type them, and
// their expected output. https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript describes
// the format. scriptCommands lists the commands that haul adds.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/script",
		Setup:              setUpScript,
		Cmds:               scriptCommands,
		Condition:          scriptCondition,
		RequireUniqueNames: true,
		UpdateScripts:      os.Getenv("HAUL_UPDATE_SCRIPTS") != "",
	})
}

var scriptCommands = map[string]func(*testscript.TestScript, bool, []string){
	"serve":       cmdServe,
	"sftp-server": cmdSFTPServer,
	"http-server": cmdHTTPServer,
	"tftp-server": cmdTFTPServer,
	"stop-server": cmdStopServer,
	"wait-for":    cmdWaitFor,
	"server-log":  cmdServerLog,
	"signal":      cmdSignal,
	"s3-server":   cmdS3Server,
	"exits":       cmdExits,
	"prints":      cmdPrints,
	"says":        cmdSays,
	"request":     cmdRequest,
	"metric":      cmdMetric,
	"like":        cmdLike,
	"files":       cmdFiles,
	"fill":        cmdFill,
	"touch":       cmdTouch,
	"write":       cmdWrite,
	"fifo":        cmdFIFO,
}

// scriptCondition adds conditions to those of testscript.
func scriptCondition(name string) (bool, error) {
	switch name {
	case "interfaces":
		found, err := proxydhcp.Interfaces(nil)
		return len(found) > 0 && err == nil, nil
	case "root":
		return os.Geteuid() == 0, nil
	case "fifo":
		return runtime.GOOS != "windows", nil
	case "full-device":
		_, err := os.Stat("/dev/full")
		return err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// confined is the variable with which a script lets "haul serve" confine itself. Otherwise the
// server does not, even if root runs the tests.
const confined = "HAUL_TEST_CONFINED"

// scriptHaul is the command haul in scripts.
func scriptHaul() {
	if os.Getenv(confined) == "" {
		runServer = unconfined
	}
	sshConfig = filepath.Join(os.Getenv("HOME"), ".ssh", "config")
	main()
}

// unconfined runs a server that does not confine its process.
func unconfined(ctx context.Context, cfg settings.Config, out io.Writer) error {
	cfg.Unconfined = true
	return serve.Run(ctx, cfg, out)
}

// scriptUser is the user who logs in to the servers that the commands sftp-server and http-server
// start. Computing the hash of the password takes only a millisecond.
const (
	scriptUser     = "me"
	scriptPassword = "abracadabra"
	scriptHash     = "$2a$04$oRG./awk3RcT3XocKXGt8erHrwJ2jq6k73J1pYqemhuXB3N7.JcVK"
)

// setUpScript creates the home directory $HOME, with an SSH key and a password in $NETRC, the users
// file $USERS with the user "me", to whom these belong, and the host key of the script's servers in
// $KEYS.
func setUpScript(env *testscript.Env) error {
	home := filepath.Join(env.WorkDir, ".home")
	server := filepath.Join(env.WorkDir, ".server")
	vars := map[string]string{
		"HOME": home, "USERPROFILE": home,
		"KEYS": filepath.Join(server, "keys"), "USERS": filepath.Join(server, "users"),
		"CONFIGURATION_DIRECTORY": filepath.Join(server, "config"),
		"NETRC":                   filepath.Join(home, ".netrc"),
		"XDG_STATE_HOME":          filepath.Join(home, "state"),
		"XDG_CONFIG_HOME":         filepath.Join(home, ".config"),
		"TZ":                      "UTC", "LC_ALL": "C", "GORACE": "atexit_sleep_ms=0",
		"UID": strconv.Itoa(os.Getuid()), "GID": strconv.Itoa(os.Getgid()),
		"HASH":    scriptHash,
		"VERSION": module.Version(),
	}
	for name, value := range vars {
		env.Setenv(name, value)
	}
	for _, dir := range []string{filepath.Join(home, ".ssh"), vars["KEYS"], vars["CONFIGURATION_DIRECTORY"]} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	public, err := writeScriptKey(filepath.Join(home, ".ssh", "id_ed25519"))
	if err != nil {
		return err
	}
	if _, err := writeScriptKey(filepath.Join(vars["KEYS"], "ssh_host_ed25519_key")); err != nil {
		return err
	}
	config := fmt.Sprintf("User %s\nIdentityFile %q\nUserKnownHostsFile %q\nGlobalKnownHostsFile none\nIdentityAgent none\nIdentitiesOnly yes\n",
		scriptUser, filepath.Join(home, ".ssh", "id_ed25519"), filepath.Join(home, ".ssh", "known_hosts"))
	if err := appendFile(filepath.Join(home, ".ssh", "config"), config); err != nil {
		return err
	}
	env.Values[serversKey{}] = map[string]*scriptServer{}
	return errors.Join(
		os.WriteFile(vars["USERS"], fmt.Appendf(nil, "user %s\n  password %s\n  key %s", scriptUser, scriptHash, public), 0o600),
		os.WriteFile(vars["NETRC"], fmt.Appendf(nil, "machine 127.0.0.1 login %s password %s\n", scriptUser, scriptPassword), 0o600))
}

// writeScriptKey writes a new private key and its public key, and returns the public key.
func writeScriptKey(file string) (public []byte, err error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, err
	}
	public = ssh.MarshalAuthorizedKey(signer.PublicKey())
	return public, errors.Join(os.WriteFile(file, pem.EncodeToMemory(block), 0o600), os.WriteFile(file+".pub", public, 0o644))
}

// serversKey is the key for a script's servers, a map by name.
type serversKey struct{}

// A scriptServer is a "haul serve" running in the background of a script.
type scriptServer struct {
	cmd *exec.Cmd
	log *transcript
}

// cmdServe runs "serve [-as NAME] ARGS...": "haul serve ARGS..." in the background. It returns when
// the server listens. It sets $TFTP, $SFTP, $HTTP and $HTTPS to the printed URLs without the last
// slash, $PORT to the last port, $PASSWORD to the password for one run, $FINGERPRINT to that of its
// own certificate, and $METRICS and $STATUS to the addresses of these pages. The name of the SFTP
// server for ssh is NAME, by default lab.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("a server that does not start is: exits CODE haul serve ...")
	}
	name := "lab"
	if len(args) > 1 && args[0] == "-as" {
		name, args = args[1], args[2:]
	}
	startScriptServer(ts, name, args)
}

// cmdSFTPServer runs "sftp-server [-as NAME] DIR [FLAGS...]": it serves DIR over SFTP, with all
// rights for the user "me". Locations on the server begin with lab: or $SFTP.
func cmdSFTPServer(ts *testscript.TestScript, neg bool, args []string) {
	serveOne(ts, neg, args, "--sftp", "127.0.0.1:0", "--users", ts.Getenv("USERS"), "--host-keys", ts.Getenv("KEYS"))
}

// cmdHTTPServer runs "http-server [-as NAME] DIR [FLAGS...]": it serves DIR over HTTP, with all
// rights for the user "me". haul finds the password in $NETRC.
func cmdHTTPServer(ts *testscript.TestScript, neg bool, args []string) {
	serveOne(ts, neg, args, "--http", "127.0.0.1:0", "--http-auth", ts.Getenv("USERS"), "--http-plain-auth", "--listing")
}

// cmdTFTPServer runs "tftp-server [-as NAME] DIR [FLAGS...]": it serves DIR over TFTP.
func cmdTFTPServer(ts *testscript.TestScript, neg bool, args []string) {
	serveOne(ts, neg, args, "--tftp", "127.0.0.1:0")
}

// serveOne serves the directory at the start of args over one protocol.
func serveOne(ts *testscript.TestScript, neg bool, args []string, flags ...string) {
	name := "lab"
	if len(args) > 1 && args[0] == "-as" {
		name, args = args[1], args[2:]
	}
	if neg || len(args) == 0 {
		ts.Fatalf("usage: %s-server [-as NAME] DIR [FLAGS...]", strings.TrimPrefix(flags[0], "--"))
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	startScriptServer(ts, name, append(flags, args...))
}

func startScriptServer(ts *testscript.TestScript, name string, args []string) {
	s := &scriptServer{log: newTranscript()}
	ts.Logf("[background] haul serve %s", strings.Join(args, " "))
	exe, err := exec.LookPath("haul")
	ts.Check(err)
	s.cmd = exec.Command(exe, append([]string{"serve"}, args...)...)
	s.cmd.Dir = ts.MkAbs(".")
	s.cmd.Env = scriptEnviron(ts)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	ts.Check(s.cmd.Start())
	go func() {
		_ = s.cmd.Wait() // ProcessState has its result
		s.log.end()
	}()
	ts.Defer(func() {
		_ = s.cmd.Process.Kill()
		s.log.await(func(_ string, ended bool) bool { return ended })
		ts.Logf("[log of haul serve, %s]\n%s", name, s.log)
	})
	ts.Value(serversKey{}).(map[string]*scriptServer)[name] = s
	text := ""
	for _, pattern := range listening(args) {
		text = s.await(ts, pattern)
	}
	for _, m := range regexp.MustCompile(`(metrics|status page) at (https?://[^/\s]+)`).FindAllStringSubmatch(text, -1) {
		ts.Setenv(strings.ToUpper(strings.Fields(m[1])[0]), m[2])
	}
	if m := regexp.MustCompile(`--fingerprint ([0-9a-f]{64})\b`).FindStringSubmatch(text); m != nil {
		ts.Setenv("FINGERPRINT", m[1])
	}
	if slices.Contains(args, "--sftp") && !slices.Contains(args, "--users") {
		m := regexp.MustCompile(`log in as haul with the password (\S+)`).FindStringSubmatch(s.await(ts, "haul: try: sftp -P"))
		if m == nil {
			ts.Fatalf("haul serve printed no password")
		}
		ts.Setenv("PASSWORD", m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)serving .* on ((tftp|sftp|https?)://[^/\s"]+:(\d+))`).FindAllStringSubmatch(text, -1) {
		ts.Setenv(strings.ToUpper(m[2]), m[1])
		ts.Setenv("PORT", m[3])
		if m[2] == "sftp" {
			ts.Check(knowScriptServer(ts, name, m[3], slices.Contains(args, ts.Getenv("KEYS"))))
		}
	}
}

// scriptVars lists the variables that a background server inherits from its script.
var scriptVars = strings.Fields("PATH HOME USERPROFILE TMPDIR CONFIGURATION_DIRECTORY XDG_STATE_HOME XDG_CONFIG_HOME TZ LC_ALL GORACE GOCOVERDIR SYSTEMROOT " + confined)

// scriptEnviron returns the environment of a server. $PASS lists further variables to inherit,
// separated by blanks.
func scriptEnviron(ts *testscript.TestScript) (env []string) {
	for _, name := range append(scriptVars, strings.Fields(ts.Getenv("PASS"))...) {
		if value := ts.Getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// listening returns patterns for the lines that a server prints about the addresses in its flags.
func listening(args []string) (patterns []string) {
	for i, arg := range args[:len(args)-1] {
		scheme, ok := strings.CutPrefix(arg, "--")
		switch {
		case !ok || args[i+1] == "":
		case slices.Contains([]string{"tftp", "sftp", "http", "https"}, scheme):
			patterns = append(patterns, " on ("+scheme+"://|the unix socket)")
			if scheme == "https" && !slices.Contains(args, "--cert") {
				patterns = append(patterns, "--fingerprint [0-9a-f]{64}")
			}
		case scheme == "metrics" || scheme == "status":
			patterns = append(patterns, scheme+".* at https?://")
		}
	}
	if len(patterns) == 0 {
		patterns = append(patterns, "serving .* on ")
	}
	return patterns
}

// knowScriptServer adds a server to ssh_config, and to known_hosts if its host key is the one in
// $KEYS.
func knowScriptServer(ts *testscript.TestScript, name, port string, known bool) error {
	dir := filepath.Join(ts.Getenv("HOME"), ".ssh")
	host := fmt.Sprintf("Host %[1]s %[1]s-too\n  HostName 127.0.0.1\n  Port %[2]s\n", name, port)
	if err := appendFile(filepath.Join(dir, "config"), host); err != nil || !known {
		return err
	}
	key, err := os.ReadFile(filepath.Join(ts.Getenv("KEYS"), "ssh_host_ed25519_key.pub"))
	if err != nil {
		return err
	}
	return appendFile(filepath.Join(dir, "known_hosts"), fmt.Sprintf("[127.0.0.1]:%s %s", port, key))
}

func appendFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// await waits until the output of a server matches, and returns it.
func (s *scriptServer) await(ts *testscript.TestScript, pattern string) string {
	re, err := regexp.Compile("(?m)" + pattern)
	ts.Check(err)
	matches := false
	text, ok := s.log.await(func(text string, ended bool) bool {
		matches = re.MatchString(text)
		return matches || ended
	})
	if !ok || !matches {
		ts.Fatalf("haul serve did not print %s", pattern)
	}
	return text
}

// theServer returns the server named by "-as NAME" at the start of args, and the other args.
func theServer(ts *testscript.TestScript, args []string) (*scriptServer, []string) {
	name := "lab"
	if len(args) > 1 && args[0] == "-as" {
		name, args = args[1], args[2:]
	}
	s := ts.Value(serversKey{}).(map[string]*scriptServer)[name]
	if s == nil {
		ts.Fatalf("there is no server %s", name)
	}
	return s, args
}

// cmdWaitFor runs "wait-for [-as NAME] REGEXP": it waits until the server has printed a matching
// line.
func cmdWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	s, args := theServer(ts, args)
	if neg || len(args) != 1 {
		ts.Fatalf("usage: wait-for [-as NAME] REGEXP")
	}
	s.await(ts, args[0])
}

// cmdServerLog runs "server-log [-as NAME]": it prints the server's log so far on standard output.
func cmdServerLog(ts *testscript.TestScript, _ bool, args []string) {
	s, _ := theServer(ts, args)
	_, _ = io.WriteString(ts.Stdout(), s.log.String())
}

var scriptSignals = map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}

// cmdSignal runs "signal [-as NAME] HUP|INT|TERM|KILL": it sends the signal to the server.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	s, args := theServer(ts, args)
	if neg || len(args) != 1 || scriptSignals[args[0]] == nil {
		ts.Fatalf("usage: signal [-as NAME] HUP|INT|TERM|KILL")
	}
	ts.Check(s.cmd.Process.Signal(scriptSignals[args[0]]))
}

// cmdStopServer runs "stop-server [-as NAME] [CODE]": it ends the server with SIGTERM, unless it
// has ended, waits for its end, and checks the exit code, by default 0. It prints the server's log
// on standard output.
func cmdStopServer(ts *testscript.TestScript, neg bool, args []string) {
	s, args := theServer(ts, args)
	want := 0
	if neg || len(args) > 1 {
		ts.Fatalf("usage: stop-server [-as NAME] [CODE]")
	}
	if len(args) == 1 {
		var err error
		want, err = strconv.Atoi(args[0])
		ts.Check(err)
	}
	stop := os.Signal(syscall.SIGTERM)
	if runtime.GOOS == "windows" {
		stop, want = os.Kill, 1
	}
	if err := s.cmd.Process.Signal(stop); err != nil && !errors.Is(err, os.ErrProcessDone) {
		ts.Fatalf("%v", err)
	}
	text, ok := s.log.await(func(_ string, ended bool) bool { return ended })
	if !ok {
		ts.Fatalf("haul serve does not end")
	}
	_, _ = io.WriteString(ts.Stdout(), text)
	if code := s.cmd.ProcessState.ExitCode(); code != want {
		ts.Fatalf("haul serve has ended with the exit code %d", code)
	}
}

// cmdS3Server runs "s3-server": an S3 server in this process, for haul to use. It has one bucket,
// which answers to any name.
func cmdS3Server(ts *testscript.TestScript, _ bool, _ []string) {
	s := httptest.NewServer(s3test.NewHandler())
	ts.Defer(s.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": s.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
		"PASS": "AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION",
	} {
		ts.Setenv(name, value)
	}
}

// cmdExits runs "exits CODE COMMAND [ARGS...]": the command must end with this exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d", got)
	}
}

// cmdPrints runs "prints LINE...": the standard output of the last command must consist of these
// lines, where <WORD> has the same meaning as for like.
func cmdPrints(ts *testscript.TestScript, neg bool, args []string) {
	wantLines(ts, neg, "stdout", args)
}

// cmdSays runs "says LINE...": it does the same as "prints" for standard error.
func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	wantLines(ts, neg, "stderr", args)
}

func wantLines(ts *testscript.TestScript, neg bool, stream string, lines []string) {
	if neg {
		ts.Fatalf("prints and says know no !")
	}
	compareLines(ts, stream, "the lines", append(slices.Clone(lines), ""))
}

// shownHeaders lists the header fields that request prints, in this order.
var shownHeaders = strings.Fields("Accept-Ranges Allow Content-Disposition Content-Encoding Content-Length Content-Range Content-Type Location Retry-After WWW-Authenticate")

// cmdRequest runs "request METHOD URL [FIELD:VALUE...] [BODY]": an HTTP request. It prints the
// status, some header fields and the body. A BODY is a file. Any certificate is trusted.
func cmdRequest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: request METHOD URL [FIELD:VALUE...] [BODY]")
	}
	var body io.Reader
	header := http.Header{}
	for _, arg := range args[2:] {
		if key, value, ok := strings.Cut(arg, ":"); ok {
			header.Add(key, strings.TrimSpace(value))
		} else {
			body = strings.NewReader(ts.ReadFile(arg))
		}
	}
	r, err := http.NewRequest(args[0], args[1], body)
	ts.Check(err)
	r.Header = header
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	ts.Check(err)
	defer answer.Body.Close()
	out := ts.Stdout()
	fmt.Fprintln(out, answer.Status)
	for _, name := range shownHeaders {
		for _, value := range answer.Header.Values(name) {
			fmt.Fprintf(out, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(out)
	_, err = io.Copy(out, answer.Body)
	ts.Check(err)
}

// cmdMetric runs "metric REGEXP": it waits until the metrics have a matching line.
func cmdMetric(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: metric REGEXP")
	}
	re := regexp.MustCompile("(?m)^" + args[0] + "$")
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(patience); ; {
		answer, err := http.Get(ts.Getenv("METRICS") + "/metrics")
		ts.Check(err)
		page, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		ts.Check(err)
		if re.Match(page) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("the metrics are\n%s", page)
		}
	}
}

// cmdLike runs "like FILE1 FILE2": it compares like cmpenv, but <WORD> in FILE2 matches any text
// within a line: a time, a rate or a port. FILE1 may be stdout or stderr.
func cmdLike(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: like FILE1 FILE2")
	}
	compareLines(ts, args[0], args[1], strings.Split(os.Expand(ts.ReadFile(args[1]), ts.Getenv), "\n"))
}

// compareLines fails unless a file, stdout or stderr matches the wanted lines.
func compareLines(ts *testscript.TestScript, file, name string, want []string) {
	got := strings.Split(ts.ReadFile(file), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !likePattern(want[i]).MatchString(got[i]) {
			ts.Fatalf("line %d of %s is not like %s. It has\n%s\nwant\n%s", i+1, file, name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// likePattern returns the pattern of a line.
func likePattern(line string) *regexp.Regexp {
	text := regexp.MustCompile(`<[a-z ]+>`).ReplaceAllString(regexp.QuoteMeta(line), ".+?")
	return regexp.MustCompile("^" + text + "$")
}

// cmdFiles runs "files [-p|-l] DIR": it prints the names of all files below a directory, including
// temporary files. A directory's name ends in a slash. With -p permissions come before the name,
// and with -l also size and time.
func cmdFiles(ts *testscript.TestScript, neg bool, args []string) {
	format := "name"
	if len(args) > 1 {
		format, args = args[0], args[1:]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: files [-p|-l] DIR")
	}
	top, out := ts.MkAbs(args[0]), ts.Stdout()
	ts.Check(filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == top {
			return err
		}
		name, _ := filepath.Rel(top, path)
		name = filepath.ToSlash(name)
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch link := d.Type() == fs.ModeSymlink; {
		case link: // all links have the same permissions
		case format == "-p":
			name = info.Mode().String() + " " + name
		case format == "-l":
			name = fmt.Sprintf("%s %d %s %s", info.Mode(), info.Size(), info.ModTime().UTC().Format(time.RFC3339), name)
		}
		switch {
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(path)
			name += " -> " + to
		}
		_, err = fmt.Fprintln(out, name)
		return err
	}))
}

// cmdFill runs "fill SIZE FILE...": it writes files of SIZE bytes, with a long period.
func cmdFill(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: fill SIZE FILE...")
	}
	size, err := strconv.Atoi(args[0])
	ts.Check(err)
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintln(&b, i, "times", i, "is", i*i)
	}
	for _, name := range args[1:] {
		ts.Check(writeScriptFile(ts.MkAbs(name), b.Bytes()[:size]))
	}
}

// cmdWrite runs "write FILE [TEXT]": it writes a file without the final line break that files in
// the script have. FILE and TEXT may contain \n, \xHH and so on, as in Go.
func cmdWrite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: write FILE [TEXT]")
	}
	name, err := unquoteWord(args[0])
	ts.Check(err)
	text, err := unquoteWord(strings.Join(args[1:], ""))
	ts.Check(err)
	ts.Check(writeScriptFile(ts.MkAbs(name), []byte(text)))
}

func unquoteWord(word string) (string, error) {
	return strconv.Unquote(`"` + strings.ReplaceAll(word, `"`, `\"`) + `"`)
}

func writeScriptFile(name string, content []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, content, 0o644))
}

// cmdTouch runs "touch TIME FILE...": it sets the time of files, and creates missing ones.
func cmdTouch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: touch TIME FILE...")
	}
	at, err := time.Parse(time.RFC3339, args[0])
	ts.Check(err)
	for _, name := range args[1:] {
		name = ts.MkAbs(name)
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			ts.Check(writeScriptFile(name, nil))
		}
		ts.Check(os.Chtimes(name, at, at))
	}
}

// cmdFIFO runs "fifo FILE": it makes a named pipe.
func cmdFIFO(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fifo FILE")
	}
	ts.Check(makeFIFO(ts.MkAbs(args[0])))
}

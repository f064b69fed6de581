//go:build unix

package hooks

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

const (
	// roleVar is the variable that contains the role of a process that was started for hooks.
	roleVar        = "HAUL_HOOKS"
	supervisorRole = "supervisor"
	helperRole     = "helper"

	supervisorTitle = "haul: keeps the helper for hooks running"
	helperTitle     = "haul: runs hooks"

	firstLine = 3 // the descriptor of the first line to the server

	// maxInherited is the number of descriptors that are marked close-on-exec, because the program
	// that started haul may have left them open.
	maxInherited = 1024
)

// self returns the path of this program. On Linux the path works even if the user may not enter the
// program's directory, or if another program was installed in place of this one.
func self() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// newCommand returns a command that runs this program in the given role. Lists of processes show
// `title`.
func newCommand(role, title string, env []string) (*exec.Cmd, error) {
	exe, err := self()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Args = []string{title}
	cmd.Env = append(helperEnv(env), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// helperVars are the environment variables that the helper needs to post. The helper gets no other
// variables, because the server's environment may contain passwords, and on some systems programs
// can read the helper's environment.
var helperVars = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "GODEBUG"}

// helperEnv returns the variables of env that the supervisor and the helper may have.
func helperEnv(env []string) (kept []string) {
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(helperVars, strings.ToUpper(name)) {
			kept = append(kept, v)
		}
	}
	return kept
}

// programEnv returns the variables of env that hook programs may have. The other variables may
// contain passwords.
func programEnv(env []string, sameUser bool) (kept []string) {
	path := false
	for _, v := range env {
		switch name, _, _ := strings.Cut(v, "="); {
		case name == "PATH":
			path = true
		case name == "LANG", strings.HasPrefix(name, "LC_"), name == "TZ", name == "TMPDIR", name == "HOME" && sameUser:
		default:
			continue
		}
		kept = append(kept, v)
	}
	if !path {
		kept = append(kept, "PATH=/usr/local/bin:/usr/bin:/bin")
	}
	return kept
}

// keepSignals catches and drops the signals that stop the server, because systemd and terminals
// send them to all processes of the group. Programs that this process runs do not inherit this, so
// the signals do stop them.
func keepSignals() {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
}

// closeInPrograms marks all descriptors close-on-exec, so that started programs inherit neither the
// lines of this process nor descriptors left open by the program that started haul.
func closeInPrograms() {
	for fd := firstLine; fd < maxInherited; fd++ {
		syscall.CloseOnExec(fd) // does nothing for a descriptor that is not open, as most are
	}
}

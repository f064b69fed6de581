package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/openssh"
	"github.com/haul-project/haul/cmd/haul/internal/system/subprocess"
	"github.com/haul-project/haul/sftp/sftpclient"
)

// SFTP can run over a program such as ssh. Each session is a separate process, "ssh -s HOST sftp".
// The program reads its own configuration and asks the user itself.

const (
	// commandLogin is how long ssh may take to connect and log in if it may ask the user. sshd
	// allows two minutes for the login.
	commandLogin = 150 * time.Second

	// commandGrace is how long ssh may take to exit after haul has closed its input. There must be
	// a limit, because ssh does not exit while other programs share its connection, or while there
	// is no network.
	commandGrace = 2 * time.Second

	// interruptTime is how long haul waits for a signal after ssh has exited. The terminal sends
	// Ctrl-C to both programs, and haul may get the signal only after ssh has exited because of it.
	interruptTime = 100 * time.Millisecond

	// maxCommandText is how many bytes of ssh's standard error are kept.
	maxCommandText = 4 << 10
)

// connectBy connects to the server of a location through the configured program.
func (d *sshDialer) connectBy(ctx context.Context, l Location, to Intent) (*sftpServer, error) {
	limit := commandLogin
	if d.cfg.Batch {
		limit = cmp.Or(d.cfg.Patience.Answer, sftpclient.DefaultTimeout)
	}
	said := &commandText{pass: d.cfg.Stderr}
	p, err := d.start(l.server, said, d.cfg.Batch)
	if err != nil {
		return nil, err
	}
	overdue := fmt.Errorf("%s has not logged in within %v: %w", d.program(), limit, os.ErrDeadlineExceeded)
	login, cancel := context.WithTimeoutCause(ctx, limit, overdue)
	defer cancel()
	config := d.clientConfig(to)
	config.ConnectStream = func(context.Context) (io.ReadWriteCloser, error) {
		// Further connections ask no questions, for the reason that sshDialer.further gives.
		p, err := d.start(l.server, new(commandText), true)
		if err != nil {
			return nil, err
		}
		p.SetGrace(commandGrace)
		return p, nil
	}
	c, err := sftpclient.NewStream(login, p, config)
	if err != nil {
		return nil, d.explain(login, l, err)
	}
	p.SetGrace(commandGrace)
	said.mute()
	return &sftpServer{Client: c}, nil
}

// program returns the program's name for messages.
func (d *sshDialer) program() string { return filepath.Base(d.cfg.SSH.Command[0]) }

// start starts the program for one session with a server.
func (d *sshDialer) start(t openssh.Target, said *commandText, batch bool) (*subprocess.Process, error) {
	words := d.commandLine(t, batch)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stderr = said
	start := subprocess.Start
	if batch {
		start = subprocess.StartGroup // the program asks no questions, so it does not need the terminal
	}
	p, err := start(cmd)
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, failure.Local.Errorf("--ssh: there is no program %s: install it, or leave out --ssh and haul logs in by itself", console.Visible(words[0]))
	case err != nil:
		return nil, failure.Local.Errorf("--ssh: %w", err)
	}
	p.Explain = func(how error) error { return said.explain(d.program(), how) }
	return p, nil
}

// commandLine returns the command line of the program. The user's words come first, because ssh
// uses the first value of an option.
func (d *sshDialer) commandLine(t openssh.Target, batch bool) []string {
	c := &d.cfg.SSH
	var words []string
	add := func(flag string, values ...string) {
		for _, v := range values {
			words = append(words, flag, v)
		}
	}
	words = append(words, c.Command...)
	if port := cmp.Or(t.Port, c.Port); port != 0 {
		add("-p", strconv.Itoa(port))
	}
	if t.User != "" {
		add("-l", t.User)
	}
	if c.Jump != "" {
		add("-J", c.Jump)
	}
	if c.ConfigFile != "" {
		add("-F", c.ConfigFile)
	}
	add("-i", c.Identities...)
	add("-o", c.Options...)
	if batch {
		add("-o", "BatchMode=yes")
	}
	if d.cfg.Quiet {
		add("-o", "LogLevel=ERROR")
	}
	// An SFTP session needs none of these features, whatever the configuration says for other
	// sessions.
	add("-o", "ForwardX11=no", "ForwardAgent=no", "ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no")
	return append(words, "-s", "--", t.Host, "sftp")
}

// explain returns the reason why no session began. ctx is the context of the login.
func (d *sshDialer) explain(ctx context.Context, l Location, err error) error {
	end, ended := errors.AsType[*commandError](err)
	if ended {
		select {
		case <-ctx.Done():
		case <-time.After(interruptTime):
		}
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, sftpclient.ErrProtocol):
		return noSession(l, err)
	case ended:
		err = end
		if advice := end.advice(d.cfg.Batch); advice != "" {
			err = fmt.Errorf("%w; %s", err, advice)
		}
	}
	return failure.Dial.Errorf("connect to %v: %w", l.server, err)
}

// A commandText collects ssh's standard error.
type commandText struct {
	mu   sync.Mutex
	pass io.Writer // guarded by mu: receives the text as it arrives; nil if the text is not shown
	text []byte    // guarded by mu: the last bytes of the text, up to maxCommandText
}

// Write implements [io.Writer].
func (t *commandText) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-maxCommandText):]...)
	t.text = append(t.text[:0], t.text[max(0, len(t.text)-maxCommandText):]...)
	if t.pass != nil {
		_, _ = t.pass.Write(b)
	}
	return len(b), nil
}

// mute stops passing the text on to the terminal, where haul will show the progress. From now on,
// errors quote the last line of the text.
func (t *commandText) mute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass = nil
}

// explain returns an error that says why the program exited. `how` is the result of
// [exec.Cmd.Wait].
func (t *commandText) explain(program string, how error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, last := &commandError{program: program, how: how}, ""
	for line := range strings.Lines(string(t.text)) {
		if line = strings.TrimSpace(line); line != "" {
			last = line
		}
		for i := range commandEnds {
			if strings.Contains(strings.ToLower(line), commandEnds[i].says) {
				e.end = &commandEnds[i]
			}
		}
	}
	if t.pass == nil || e.end == nil { // otherwise, the user has just seen the text on the terminal
		e.last = last
	}
	return e
}

// A commandError reports that the program exited, and why.
type commandError struct {
	program string
	how     error       // the error of [exec.Cmd.Wait]
	last    string      // last line of the program's standard error; "" if it is not worth showing
	end     *commandEnd // the cause, as far as the standard error names it; nil if it is unknown
}

// A commandEnd describes one cause for which ssh exits.
type commandEnd struct {
	// says is the part of ssh's standard error that identifies the cause, in lower case. It is not a
	// whole line, because versions of ssh differ, and some lines contain the server's words.
	says  string
	means string // the words for the cause in haul's message
	kind  error  // the error that commandError wraps for this cause
}

// unresolved is the kind of a [commandEnd] whose cause is a host name without an address.
var unresolved = &net.DNSError{Err: "no such host"}

var commandEnds = []commandEnd{
	{"permission denied (", "permission denied", openssh.ErrAuth},
	{"too many authentication failures", "permission denied, too many times", openssh.ErrAuth},
	{"host key verification failed", "the host key is not trusted", openssh.ErrHostKey},
	{"subsystem request failed", "the server refuses the subsystem sftp", openssh.ErrRefused},
	{"could not resolve hostname", "the name has no address", unresolved},
	{"bad configuration option", "an option is wrong", failure.Usage},
	{"unknown option", "an option is wrong", failure.Usage},
	{"illegal option", "an option is wrong", failure.Usage},
}

func (e *commandError) Error() string {
	text := e.program + " has ended"
	switch exit, ok := errors.AsType[*exec.ExitError](e.how); {
	case e.end != nil:
		text = e.program + ": " + e.end.means
	case ok && !exit.Exited():
		text += " by a " + exit.String() // for example "signal: killed"
	case ok:
		text += fmt.Sprintf(" with exit code %d", exit.ExitCode())
	case e.how != nil:
		text += ": " + e.how.Error()
	default:
		text += ", and no server has answered"
	}
	if e.last != "" {
		text += fmt.Sprintf(" (it says %q)", e.last)
	}
	return text
}

// Unwrap returns the kind of the cause, and io.ErrUnexpectedEOF, because the connection was lost.
func (e *commandError) Unwrap() []error {
	kinds := []error{io.ErrUnexpectedEOF}
	if e.end != nil {
		kinds = append(kinds, e.end.kind)
	}
	return kinds
}

// advice returns advice for the user about the cause, or "".
func (e *commandError) advice(batch bool) string {
	switch {
	case errors.Is(e, openssh.ErrAuth):
		advice := "name a key by -i FILE, another user by USER@HOST"
		if batch {
			advice += ", or leave out --batch to be asked"
		}
		return advice
	case errors.Is(e, openssh.ErrHostKey):
		return "verify the fingerprint with the server's administrator; -o StrictHostKeyChecking=accept-new accepts it if the host has none yet"
	case errors.Is(e, openssh.ErrRefused):
		return "its configuration has to have a line Subsystem sftp"
	case errors.Is(e, unresolved):
		return "check its spelling"
	}
	return ""
}

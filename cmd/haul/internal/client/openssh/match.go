package openssh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"time"
)

// execTime is how long a command of Match exec may run. ssh has no such limit.
const execTime = 30 * time.Second

// sessionType and subsystem describe haul's sessions for Match: sessionType is compared with the
// argument of Match sessiontype, and subsystem with the argument of Match command.
const sessionType, subsystem = "subsystem", "sftp"

// matchLine reports whether all criteria of a Match line hold. If `run` is set, it runs the command
// of an exec criterion, but only if all criteria before that one hold.
func (r *reader) matchLine(rest string, run bool) (bool, error) {
	words, err := splitCriteria(rest)
	if err != nil {
		return false, err
	}
	result, count := true, 0
	for i := 0; i < len(words); i++ {
		name, negated := strings.CutPrefix(strings.ToLower(words[i]), "!")
		if name == "all" {
			// The criterion "all" must stand alone, or follow "canonical" or "final" as the last one.
			if i+1 < len(words) || count > 1 {
				return false, errors.New("match: all must be alone, or after canonical or final")
			}
			return result && !negated, nil
		}
		count++
		var holds bool
		switch name {
		case "canonical", "final":
			r.wantFinal = r.wantFinal || name == "final"
			holds = r.final
		default:
			if i++; i == len(words) || words[i] == "" {
				return false, fmt.Errorf("match: %s has no argument", printable(name))
			}
			if holds, err = r.criterion(name, words[i], run && result); err != nil {
				return false, fmt.Errorf("match: %w", err)
			}
		}
		result = result && holds != negated
	}
	if count == 0 {
		return false, errors.New("match has no criteria")
	}
	return result, nil
}

// splitCriteria splits a Match line. There may be a "=" between a criterion and its argument.
func splitCriteria(rest string) (words []string, err error) {
	args, err := splitArgs(rest)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(args[i], "=")
		if !ok {
			words = append(words, args[i])
			if !takesArgument(args[i]) {
				continue
			}
			if i+1 < len(args) && args[i+1] == "=" {
				i++
			}
			if i++; i < len(args) { // do not split the argument at an equals sign, which may be part of it
				words = append(words, strings.TrimPrefix(args[i], "="))
			}
			continue
		}
		words = append(words, name, value)
	}
	return words, nil
}

func takesArgument(criterion string) bool {
	switch strings.ToLower(strings.TrimPrefix(criterion, "!")) {
	case "all", "canonical", "final":
		return false
	}
	return true
}

// criterion reports whether a criterion with an argument holds. As in ssh, an unknown criterion is
// an error. If it were ignored, settings for other hosts could apply.
func (r *reader) criterion(name, arg string, run bool) (bool, error) {
	user := r.sys.user
	if u := r.values["user"]; u != nil {
		user = u[0]
	}
	switch name {
	case "host":
		host, err := r.hostName()
		return err == nil && matchHost(host, arg), err
	case "originalhost":
		return matchHost(r.original, arg), nil
	case "user":
		return matchList(user, arg), nil
	case "localuser":
		return matchList(r.sys.user, arg), nil
	case "localnetwork":
		return r.matchNetwork(arg)
	case "tagged":
		tag := r.values["tag"]
		return tag != nil && matchList(tag[0], arg), nil
	case "sessiontype":
		return matchList(sessionType, strings.ToLower(arg)), nil
	case "command":
		return matchList(subsystem, arg), nil
	case "version":
		return matchList("haul", arg), nil
	case "exec":
		if !run {
			return false, nil
		}
		return r.exec(arg, user)
	}
	return false, fmt.Errorf("there is no criterion %q", printable(name))
}

// hostName returns the host to connect to, as far as the lines that have been read determine it.
func (r *reader) hostName() (string, error) {
	name := r.values["hostname"]
	if name == nil {
		return r.host, nil
	}
	if r.final {
		return name[0], nil
	}
	return expand(name[0], tokens{'h': r.host}, nil)
}

// matchNetwork reports whether one of this machine's addresses is in one of the networks.
func (r *reader) matchNetwork(list string) (bool, error) {
	for s := range strings.SplitSeq(list, ",") {
		s, negated := strings.CutPrefix(s, "!")
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return false, fmt.Errorf("localnetwork: %w", err)
		}
		for _, a := range r.sys.locals() {
			if p.Contains(a.Unmap().WithZone("")) {
				return !negated, nil
			}
		}
	}
	return false, nil
}

// exec runs the command of a Match exec, and reports whether its exit code is 0.
func (r *reader) exec(command, user string) (bool, error) {
	if r.o.NoExec {
		return false, fmt.Errorf("exec %q: commands are not allowed here", command)
	}
	host, err := r.hostName()
	if err != nil {
		return false, err
	}
	d := Destination{Alias: r.original, Host: host, User: user, Port: defaultPort}
	if p := r.values["port"]; p != nil {
		d.Port, _ = parsePort(p[0])
	}
	if a := r.values["hostkeyalias"]; a != nil {
		d.HostKeyAlias = a[0]
	}
	line, err := expandCommand(command, r.sys.connection(&d, ""))
	if err != nil {
		return false, fmt.Errorf("exec: %w", err)
	}
	shell, err := r.sys.shell()
	if err != nil {
		return false, fmt.Errorf("exec: %w", err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, execTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, shell, "-c", line)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = time.Second // processes that the command leaves behind may keep standard error open
	err = cmd.Run()
	switch {
	case r.ctx.Err() != nil:
		return false, r.ctx.Err()
	case ctx.Err() != nil:
		return false, fmt.Errorf("exec %q: not done after %v", line, execTime)
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("exec %q: %w", line, err)
	}
	return true, nil
}

// expandCommand expands the tokens in a command for the shell. It returns an error if a value
// contains control characters, because a line break would begin another command.
func expandCommand(command string, t tokens) (string, error) {
	for letter, value := range t {
		if strings.ContainsFunc(value, isControl) && strings.Contains(command, "%"+string(letter)) {
			return "", fmt.Errorf("%%%c would put %q into a command", letter, value)
		}
	}
	return expand(command, t, nil)
}

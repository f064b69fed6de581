package peer

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// An SFTPClient is the recipe for an SFTP client, or for one way to use it.
type SFTPClient struct {
	Name    string // unique name, which is the same in all reports, such as "lftp pget -n 4"
	Version string
	Path    string
	Build   string // beginning of the program's SHA-256, like Server.Build
	Note    string

	env   []string
	tasks map[Task]func(SFTPJob) invocation
}

// A Task is the work of an SFTP client.
type Task int

// The tasks.
const (
	GetFile Task = iota
	PutFile
	GetTree    // download a directory with its content into an existing directory
	PutTree    // upload a directory with its content into an existing directory
	ReadFile   // read a file through a buffer by a library, without keeping the data
	WriteFile  // write a file through a buffer by a library
	FetchFile  // download a file by a library
	FillFile   // upload a file by a library
	StreamFrom // download a file by a library and io.Copy
	StreamTo   // upload a file by a library and io.Copy
)

// String returns the text for a message.
func (t Task) String() string {
	return [...]string{"get a file", "put a file", "get a tree", "put a tree", "read with a buffer", "write with a buffer",
		"get a file by a library", "put a file by a library", "copy a file to a stream", "copy a stream to a file"}[t]
}

// An SFTPJob is one task with its parameters.
type SFTPJob struct {
	Task   Task
	Server netip.AddrPort
	Keys   *Keys
	Remote string // name of the file or directory on the server: see Server.At
	Local  string // path of the local file or directory

	// These fields are for ReadFile and WriteFile.
	Buffer int           // size of the buffer, in bytes
	Size   int64         // size of the file, in bytes
	Limit  time.Duration // time after which to stop, even if unfinished

	// These fields are for experiments with haul's library.
	Delay        bool // the connection does not set TCP_NODELAY
	Requests     int  // largest number of requests under way; 0 means no limit
	RequestBytes int  // largest size of a request in bytes; 0 means no limit
}

// An invocation describes how to start a program.
type invocation struct {
	path  string // path of the program; "" means SFTPClient.Path
	args  []string
	stdin string
}

// Does reports whether the client can do a task.
func (c *SFTPClient) Does(t Task) bool { return c.tasks[t] != nil }

// Command returns the command for a job. If run is nil, it means exec.CommandContext. If the client
// cannot do the job's task, the error is [ErrOption].
func (c *SFTPClient) Command(ctx context.Context, run Command, j SFTPJob) (*exec.Cmd, error) {
	invoke := c.tasks[j.Task]
	if invoke == nil {
		return nil, fmt.Errorf("%v with %s: %w", j.Task, c.Name, ErrOption)
	}
	i := invoke(j)
	cmd := command(ctx, run, c.env, cmp.Or(i.path, c.Path), i.args...)
	if i.stdin != "" {
		cmd.Stdin = strings.NewReader(i.stdin)
	}
	return cmd, nil
}

// These are names of clients that are used in a special way, and measured next to the plain client.
const (
	openSSHTuned = "OpenSSH sftp -R 256 -B 261120"
	pkgTuned     = "pkg/sftp, concurrent writes"
	lftpParts    = "lftp pget -n 4"
	lftpParallel = "lftp mirror -P 8"
)

// ofLibrary returns the recipe for a program of package sftpprog as a client. `more` holds further
// arguments for it.
func ofLibrary(name string, more ...string) SFTPClient {
	file := func(verb string) func(SFTPJob) invocation {
		return func(j SFTPJob) invocation {
			args := []string{verb, "-addr", j.Server.String(), "-user", j.Keys.User, "-key", j.Keys.Private,
				"-trust", j.Keys.Known, "-cipher", Cipher, "-remote", j.Remote}
			if j.Local != "" {
				args = append(args, "-local", j.Local)
			}
			if j.Buffer > 0 {
				args = append(args, "-buffer", strconv.Itoa(j.Buffer), "-size", strconv.FormatInt(j.Size, 10), "-limit", j.Limit.String())
			}
			if j.Delay {
				args = append(args, "-delay")
			}
			if j.Requests > 0 {
				args = append(args, "-requests", strconv.Itoa(j.Requests))
			}
			if j.RequestBytes > 0 {
				args = append(args, "-request-bytes", strconv.Itoa(j.RequestBytes))
			}
			return invocation{args: append(args, more...)}
		}
	}
	return SFTPClient{Name: name, tasks: map[Task]func(SFTPJob) invocation{
		GetFile: file("get"), PutFile: file("put"), ReadFile: file("read"), WriteFile: file("write"),
		FetchFile: file("get"), FillFile: file("put"), StreamFrom: file("stream-get"), StreamTo: file("stream-put"),
	}}
}

// haulCommands returns the invocations of haul's commands for each task that they can do.
func haulCommands(path string) map[Task]func(SFTPJob) invocation {
	command := func(put, tree bool) func(SFTPJob) invocation {
		return func(j SFTPJob) invocation {
			from, to, verb := fmt.Sprintf("sftp://%s@%s%s", j.Keys.User, j.Server, j.Remote), j.Local, "get"
			if put {
				from, to, verb = to, from, "put"
			}
			args := []string{verb, "--quiet", "--batch", "-F", "none", "-i", j.Keys.Private, "-o", "IdentitiesOnly=yes",
				"-o", "UserKnownHostsFile=" + j.Keys.Known, "-o", "GlobalKnownHostsFile=/dev/null", "-o", "Ciphers=" + Cipher}
			if tree {
				args = append(args, "--recursive")
			}
			return invocation{path: path, args: append(args, from, to)}
		}
	}
	return map[Task]func(SFTPJob) invocation{
		GetFile: command(false, false), PutFile: command(true, false), GetTree: command(false, true), PutTree: command(true, true),
	}
}

// sshOptions returns the options for OpenSSH's programs: only the options that the login needs, and
// the cipher.
func sshOptions(j SFTPJob) []string {
	args := []string{"-F", "/dev/null"}
	for _, option := range []string{
		"User=" + j.Keys.User, "Port=" + port(j.Server), "IdentityFile=" + j.Keys.Private, "IdentitiesOnly=yes",
		"UserKnownHostsFile=" + j.Keys.Known, "GlobalKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes",
		"BatchMode=yes", "LogLevel=ERROR", "Ciphers=" + Cipher,
	} {
		args = append(args, "-o", option)
	}
	return args
}

// openSSH returns the recipe for OpenSSH's sftp, which reads commands from standard input. In batch
// mode it exits at the first error.
func openSSH(name string, more ...string) SFTPClient {
	batch := func(line func(SFTPJob) string) func(SFTPJob) invocation {
		return func(j SFTPJob) invocation {
			args := append([]string{"-q", "-b", "-"}, more...)
			args = append(args, sshOptions(j)...)
			return invocation{args: append(args, j.Server.Addr().String()), stdin: line(j) + "\n"}
		}
	}
	return SFTPClient{Name: name, tasks: map[Task]func(SFTPJob) invocation{
		GetFile: batch(func(j SFTPJob) string { return "get " + j.Remote + " " + j.Local }),
		PutFile: batch(func(j SFTPJob) string { return "put " + j.Local + " " + j.Remote }),
		GetTree: batch(func(j SFTPJob) string { return "get -r " + j.Remote + "/* " + j.Local + "/" }),
		PutTree: batch(func(j SFTPJob) string { return "put -r " + j.Local + "/* " + j.Remote + "/" }),
	}}
}

// lftp returns the recipes for lftp, which runs ssh. With pget it fetches a file in parts, over
// several connections.
func lftp() []SFTPClient {
	script := func(line func(SFTPJob) string) func(SFTPJob) invocation {
		return func(j SFTPJob) invocation {
			return invocation{args: []string{"--norc", "-c", strings.Join([]string{
				"set cmd:fail-exit yes", "set net:max-retries 1", "set sftp:auto-confirm no",
				"set sftp:connect-program \"ssh -a -x " + strings.Join(sshOptions(j), " ") + "\"",
				fmt.Sprintf("open -u %s,none sftp://%s", j.Keys.User, j.Server),
				line(j),
			}, "; ")}}
		}
	}
	plain := SFTPClient{Name: "lftp", tasks: map[Task]func(SFTPJob) invocation{
		GetFile: script(func(j SFTPJob) string { return "get " + j.Remote + " -o " + j.Local }),
		PutFile: script(func(j SFTPJob) string { return "put " + j.Local + " -o " + j.Remote }),
		GetTree: script(func(j SFTPJob) string { return "mirror " + j.Remote + " " + j.Local }),
		PutTree: script(func(j SFTPJob) string { return "mirror -R " + j.Local + " " + j.Remote }),
	}}
	parts := SFTPClient{Name: lftpParts, tasks: map[Task]func(SFTPJob) invocation{
		GetFile: script(func(j SFTPJob) string { return "pget -n 4 " + j.Remote + " -o " + j.Local }),
	}}
	parallel := SFTPClient{Name: lftpParallel, tasks: map[Task]func(SFTPJob) invocation{
		GetTree: script(func(j SFTPJob) string { return "mirror -P 8 " + j.Remote + " " + j.Local }),
		PutTree: script(func(j SFTPJob) string { return "mirror -R -P 8 " + j.Local + " " + j.Remote }),
	}}
	return []SFTPClient{plain, parts, parallel}
}

// rclone has its own SSH client. The options keep it from running checksum commands in a shell,
// because the other clients do not compare checksums either.
var rclone = SFTPClient{Name: "rclone", tasks: map[Task]func(SFTPJob) invocation{
	GetFile: rcloneCommand("copyto", false), PutFile: rcloneCommand("copyto", true),
	GetTree: rcloneCommand("copy", false), PutTree: rcloneCommand("copy", true),
}}

func rcloneCommand(verb string, put bool) func(SFTPJob) invocation {
	return func(j SFTPJob) invocation {
		args := []string{
			verb, "--config", "/dev/null", "--sftp-host", j.Server.Addr().String(), "--sftp-port", port(j.Server),
			"--sftp-user", j.Keys.User, "--sftp-key-file", j.Keys.Private, "--sftp-known-hosts-file", j.Keys.Known,
			"--sftp-disable-hashcheck",
		}
		if put {
			args = append(args, j.Local, ":sftp:"+j.Remote)
		} else {
			args = append(args, ":sftp:"+j.Remote, j.Local)
		}
		return invocation{args: args}
	}
}

// mscp returns the recipe for mscp, which fetches a file in parts, over as many SSH connections as
// it chooses. It reads only the user's own known_hosts file, so here it has to accept any host key.
func mscp() SFTPClient {
	const anyHostKey, quiet = "-H", "-q"
	command := func(put bool) func(SFTPJob) invocation {
		return func(j SFTPJob) invocation {
			from, to := j.Server.Addr().String()+":"+j.Remote, j.Local
			if put {
				from, to = j.Local, j.Server.Addr().String()+":"+j.Remote
			}
			return invocation{args: []string{quiet, anyHostKey, "-F", "/dev/null", "-l", j.Keys.User, "-p", port(j.Server),
				"-i", j.Keys.Private, "-c", Cipher, from, to}}
		}
	}
	return SFTPClient{Name: "mscp", tasks: map[Task]func(SFTPJob) invocation{GetFile: command(false), PutFile: command(true)}}
}

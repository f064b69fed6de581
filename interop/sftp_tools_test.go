//go:build unix

package interop

import (
	"bytes"
	"context"
	"fmt"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A tool is a program that moves files by SFTP as on a user's command line. Remote names are
// relative to the user's home directory. A nil function means that it lacks the feature. Failures
// end the test, except those of try.
type tool struct {
	name         string
	get, put     func(t *testing.T, remote, local string)
	reget, reput func(t *testing.T, remote, local string) // resume a partial file
	// getTree and putTree copy a tree; both directories exist, and the target gets the content of
	// the source.
	getTree, putTree func(t *testing.T, remote, local string)
	list             func(t *testing.T, remote string) []string
	fails            func(t *testing.T, remote, local string) error // a get that must fail

	noNames []string // odd names that it can never handle
	noLinks bool     // it does not copy symbolic links in trees as links
	times   bool     // it preserves modification times in trees
}

// A toolMaker makes a tool for one login.
type toolMaker struct {
	name string
	make func(t *testing.T, l login) *tool
}

var sftpTools = []toolMaker{
	{"sftp", newSFTPTool}, {"scp", newSCPTool}, {"lftp", newLFTPTool}, {"rclone", newRcloneTool}, {"curl", newCurlTool}, {"sshfs", newSSHFSTool},
}

// runTool runs a program to its end with the given standard input.
func runTool(t *testing.T, p program, stdin string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := p.command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	// These are two pipes: ssh makes its standard error non-blocking, and a program that shares
	// it with ssh for its output would lose what does not fit at once.
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %q: %w\n%s%s", filepath.Base(p.path), args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), err
}

func mustRun(t *testing.T, p program, stdin string, args ...string) string {
	t.Helper()
	out, err := runTool(t, p, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// findOpenSSH returns one of OpenSSH's client programs: the newest available.
func findOpenSSH(t *testing.T, name string) program { return find(t, "openssh-server", name) }

func newSFTPTool(t *testing.T, l login) *tool {
	p := findOpenSSH(t, "sftp")
	p.args = []string{"-q", "-S", findOpenSSH(t, "ssh").path, "-F", l.sshConfig(t), "-b", "-"}
	run := func(t *testing.T, line string) string {
		t.Helper()
		return mustRun(t, p, line+"\n", "server")
	}
	// Text in double quotes is not a pattern, except for a backslash.
	q := func(name string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"` }
	return &tool{
		name:    "sftp",
		times:   true,
		get:     func(t *testing.T, remote, local string) { run(t, "get "+q(remote)+" "+q(local)) },
		put:     func(t *testing.T, remote, local string) { run(t, "put "+q(local)+" "+q(remote)) },
		reget:   func(t *testing.T, remote, local string) { run(t, "reget "+q(remote)+" "+q(local)) },
		reput:   func(t *testing.T, remote, local string) { run(t, "reput "+q(local)+" "+q(remote)) },
		getTree: func(t *testing.T, remote, local string) { run(t, "get -pR "+q(remote+"/.")+" "+q(local)) },
		putTree: func(t *testing.T, remote, local string) { run(t, "put -pR "+q(local+"/.")+" "+q(remote)) },
		list: func(t *testing.T, remote string) []string {
			out := run(t, "cd "+q(remote)+"\nls -1f")
			var names []string
			for line := range strings.Lines(out) {
				if !strings.HasPrefix(line, "sftp> ") {
					names = append(names, strings.TrimSpace(line))
				}
			}
			return names
		},
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "get "+q(remote)+" "+q(local)+"\n", "server")
			return err
		},
		noLinks: true,
	}
}

// This is scp since OpenSSH 9, which uses SFTP.
func newSCPTool(t *testing.T, l login) *tool {
	p := findOpenSSH(t, "scp")
	p.args = []string{"-s", "-q", "-S", findOpenSSH(t, "ssh").path, "-F", l.sshConfig(t)}
	// A remote name is a pattern.
	q := func(name string) string {
		return "server:" + strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(name)
	}
	return &tool{
		name: "scp", noLinks: true, times: true,
		get:     func(t *testing.T, remote, local string) { mustRun(t, p, "", q(remote), local) },
		put:     func(t *testing.T, remote, local string) { mustRun(t, p, "", local, "server:"+remote) },
		getTree: func(t *testing.T, remote, local string) { mustRun(t, p, "", "-rp", q(remote)+"/.", local) },
		putTree: func(t *testing.T, remote, local string) { mustRun(t, p, "", "-rp", local+"/.", "server:"+remote) },
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "", q(remote), local)
			return err
		},
	}
}

func newLFTPTool(t *testing.T, l login) *tool {
	p := find(t, "lftp", "lftp")
	p.env = append(p.env, "HOME="+t.TempDir())
	q := func(name string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"` }
	begin := fmt.Sprintf("set cmd:fail-exit yes; set sftp:connect-program %s; set net:max-retries 1; set xfer:clobber yes; set ftp:list-options -a; open sftp://%s:@server; ",
		q("ssh -a -x -F "+l.sshConfig(t)), l.user)
	run := func(t *testing.T, command string) string {
		t.Helper()
		return mustRun(t, p, "", "--norc", "-c", begin+command)
	}
	return &tool{
		name:  "lftp",
		times: true,
		get:   func(t *testing.T, remote, local string) { run(t, "pget -n 3 "+q(remote)+" -o "+q(local)) },
		put:   func(t *testing.T, remote, local string) { run(t, "put "+q(local)+" -o "+q(remote)) },
		reget: func(t *testing.T, remote, local string) { run(t, "get -c "+q(remote)+" -o "+q(local)) },
		reput: func(t *testing.T, remote, local string) { run(t, "put -c "+q(local)+" -o "+q(remote)) },
		getTree: func(t *testing.T, remote, local string) {
			run(t, "mirror --parallel=3 "+q(remote)+" "+q(local))
		},
		putTree: func(t *testing.T, remote, local string) {
			run(t, "mirror -R --parallel=3 "+q(local)+" "+q(remote))
		},
		list: func(t *testing.T, remote string) []string {
			return strings.Fields(run(t, "cd "+q(remote)+"; cls -1"))
		},
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "", "--norc", "-c", begin+"get "+q(remote)+" -o "+q(local))
			return err
		},
	}
}

// rcloneAt returns rclone with a configuration in which a server is called "server".
func rcloneAt(t *testing.T, l login) program {
	t.Helper()
	p := find(t, "rclone", "rclone")
	config := filepath.Join(t.TempDir(), "rclone.conf")
	text := fmt.Sprintf("[server]\ntype = sftp\nhost = 127.0.0.1\nport = %s\nuser = %s\nkey_file = %s\nknown_hosts_file = %s\n",
		l.port(), l.user, l.key, l.known(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.args = []string{"--config", config, "--retries", "1", "--low-level-retries", "1"}
	return p
}

func newRcloneTool(t *testing.T, l login) *tool {
	p := rcloneAt(t, l)
	return &tool{
		name: "rclone", noLinks: true, times: true,
		noNames: []string{"new\nline", "tab\there", "bell\a"}, // it replaces them with pictures
		get:     func(t *testing.T, remote, local string) { mustRun(t, p, "", "copyto", "server:"+remote, local) },
		put:     func(t *testing.T, remote, local string) { mustRun(t, p, "", "copyto", local, "server:"+remote) },
		getTree: func(t *testing.T, remote, local string) {
			mustRun(t, p, "", "sync", "--create-empty-src-dirs", "server:"+remote, local)
			mustRun(t, p, "", "check", "--download", "server:"+remote, local)
		},
		putTree: func(t *testing.T, remote, local string) {
			mustRun(t, p, "", "copy", "--create-empty-src-dirs", local, "server:"+remote)
			// It compares size and time, or hashes if the server has them.
			mustRun(t, p, "", "check", local, "server:"+remote)
		},
		list: func(t *testing.T, remote string) []string {
			return strings.Fields(mustRun(t, p, "", "lsf", "server:"+remote))
		},
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "", "copyto", "server:"+remote, local)
			return err
		},
	}
}

func newCurlTool(t *testing.T, l login) *tool {
	p := find(t, "curl", "curl")
	if out, err := runTool(t, p, "", "--version"); err != nil || !strings.Contains(out, " sftp ") {
		absent(t, "this curl has no SFTP; scripts/install-peers fetches one that has")
	}
	known := strings.TrimPrefix(ssh.FingerprintSHA256(l.host), "SHA256:")
	p.args = []string{"--silent", "--show-error", "--fail", "--hostpubsha256", known, "--key", l.key, "--pubkey", l.key + ".pub"}
	q := func(name string) string {
		var parts []string
		for part := range strings.SplitSeq(name, "/") {
			parts = append(parts, neturl.PathEscape(part))
		}
		return "sftp://" + l.user + "@" + l.addr + "/~/" + strings.Join(parts, "/")
	}
	return &tool{
		name:  "curl",
		get:   func(t *testing.T, remote, local string) { mustRun(t, p, "", "--output", local, q(remote)) },
		put:   func(t *testing.T, remote, local string) { mustRun(t, p, "", "--upload-file", local, q(remote)) },
		reget: func(t *testing.T, remote, local string) { mustRun(t, p, "", "-C", "-", "--output", local, q(remote)) },
		reput: func(t *testing.T, remote, local string) {
			mustRun(t, p, "", "-C", "-", "--upload-file", local, q(remote))
		},
		list: func(t *testing.T, remote string) []string {
			var names []string
			for name := range strings.FieldsSeq(mustRun(t, p, "", "--list-only", q(remote)+"/")) {
				if name != "." && name != ".." {
					names = append(names, name)
				}
			}
			return names
		},
		fails: func(t *testing.T, remote, local string) error {
			_, err := runTool(t, p, "", "--output", local, q(remote))
			return err
		},
	}
}

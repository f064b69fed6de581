//go:build unix

package interop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var (
	sshdInternal = sftpServer{
		name: "sshd, internal-sftp",
		start: func(t *testing.T, dir string) login {
			return startSSHD(t, dir, "Subsystem sftp internal-sftp")
		},
	}
	sshdExternal = sftpServer{
		name: "sshd, sftp-server",
		start: func(t *testing.T, dir string) login {
			p := findBelow(t, "openssh-server", "usr/lib/openssh/sftp-server", "usr/libexec/openssh/sftp-server")
			// sshd passes no environment to its session.
			env := strings.Join(append([]string{"/usr/bin/env"}, p.env...), " ")
			return startSSHD(t, dir, "Subsystem sftp "+env+" "+p.path)
		},
	}
)

// startSSHD runs OpenSSH's server as the user of the tests, with a configuration that serves dir
// to userKey, and the given lines.
//
// sshd needs an account to log in to, and as root another one for confinement. It looks up an
// account in the system's list, in which libnss_wrapper shows ours: the user haul, with our own
// number and with dir as the home directory.
func startSSHD(t *testing.T, dir string, config ...string) login {
	t.Helper()
	l, _ := startSSHDAnd(t, dir, config...)
	return l
}

// startSSHDAnd is like startSSHD for tests that read its output. The first of several settings of
// one kind counts.
func startSSHDAnd(t *testing.T, dir string, config ...string) (login, *daemon) {
	t.Helper()
	sshd := findSSHD(t)
	own := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		name = filepath.Join(own, name)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	uid, gid := os.Getuid(), os.Getgid()
	passwd := write("passwd", fmt.Sprintf("haul:x:%d:%d::%s:/bin/sh\nsshd:x:65534:65534::/:/bin/false\n", uid, gid, dir))
	group := write("group", fmt.Sprintf("haul:x:%d:\nsshd:x:65534:\n", gid))
	wrapper := findBelow(t, "libnss-wrapper", "usr/lib/*/libnss_wrapper.so").path
	sshd.env = append(sshd.env, "LD_PRELOAD="+wrapper, "NSS_WRAPPER_PASSWD="+passwd, "NSS_WRAPPER_GROUP="+group)
	if uid == 0 {
		// It confines itself to this directory, which is compiled in and usually made by the
		// service that starts sshd; it is gone at the next boot.
		if err := os.Mkdir("/run/sshd", 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	config = append(config,
		"HostKey "+must[keyPair](t)(hostKey()).file,
		"AuthorizedKeysFile "+must[keyPair](t)(userKey()).file+".pub",
		"PidFile none", "UsePAM no", "StrictModes no", "PermitRootLogin yes", "LogLevel VERBOSE")
	// Since OpenSSH 9.8 separate programs do the work, and a source that fails to log in is
	// refused for a while, which some tests cause on purpose.
	for option, pattern := range map[string]string{
		"SshdSessionPath": "usr/lib*/openssh/sshd-session", "SshdAuthPath": "usr/lib*/openssh/sshd-auth",
	} {
		if file := below("openssh-server", pattern); file != "" {
			config = append(config, option+" "+file)
			if option == "SshdSessionPath" {
				config = append(config, "PerSourcePenalties no")
			}
		}
	}
	// It does not accept port 0. Another program may take our choice before sshd does.
	for range 5 {
		addr := freeTCP(t)
		file := write("sshd_config", strings.Join(append(config, "ListenAddress "+addr), "\n")+"\n")
		d := sshd.start(t, "-D", "-e", "-f", file)
		if d.awaitLine(t, "Server listening on") {
			return newLogin(t, addr, dir, dir), d
		}
		if !strings.Contains(d.said(20), "in use") {
			t.Fatalf("sshd ended at once: %v", d.err)
		}
	}
	t.Fatal("no port is free for sshd")
	panic("unreachable")
}

// findSSHD returns sshd by its full path, because it executes itself again for each connection.
func findSSHD(t *testing.T) program {
	t.Helper()
	return find(t, "openssh-server", "sshd")
}

// findBelow returns a program, or another file, that is in none of the usual directories of a
// package: by patterns, in its unpacked directory, or in the machine's root.
func findBelow(t *testing.T, pkg string, patterns ...string) program {
	t.Helper()
	for _, pattern := range patterns {
		if file := below(pkg, pattern); file != "" {
			return program{path: file, env: libraries(peerDir(t, pkg))}
		}
	}
	for _, pattern := range patterns {
		if found, _ := filepath.Glob("/" + pattern); len(found) > 0 {
			return program{path: found[0]}
		}
	}
	absent(t, "%s is not here; scripts/install-peers fetches it (package %s)", filepath.Base(patterns[0]), pkg)
	panic("unreachable")
}

// below returns the file that matches a pattern in an unpacked package, or "".
func below(pkg, pattern string) string {
	dir, err := filepath.Abs(filepath.Join("../bin/peers", pkg))
	if err != nil {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(dir, pattern))
	if len(found) == 0 {
		return ""
	}
	return found[0]
}

// freeTCP returns a loopback address that was free a moment ago.
func freeTCP(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// awaitLine waits until a daemon has printed a text, and returns false if it ended before.
func (d *daemon) awaitLine(t *testing.T, text string) bool {
	t.Helper()
	for range 1200 {
		if strings.Contains(d.said(50), text) {
			return true
		}
		select {
		case <-d.done:
			return strings.Contains(d.said(50), text)
		case <-time.After(25 * time.Millisecond):
		}
	}
	t.Fatalf("it did not say %q within 30 s", text)
	panic("unreachable")
}

//go:build unix

package interop

import (
	"regexp"
	"strings"
	"testing"
)

// An sftpServer is a program that serves a directory by SFTP.
type sftpServer struct {
	name  string
	start func(t *testing.T, dir string) login
	lacks string // operations and cases that it does not support, surrounded by spaces
}

// It only shows links to an absolute path below dir.
var asyncsshServer = sftpServer{
	name:  "asyncssh",
	lacks: " copy readlink ",
	start: func(t *testing.T, dir string) login { return startPeer(t, asyncsshProgram(t), dir, "/") },
}

func asyncsshProgram(t *testing.T) program {
	return findPython(t, "python3-asyncssh", "asyncssh_server.py")
}

// Its file names are text, and it announces none of OpenSSH's extensions, so clients do not use
// the one that it supports: replacing a file by renaming.
var paramikoServer = sftpServer{
	name:  "paramiko",
	lacks: " link copy statvfs invalid replace ",
	start: func(t *testing.T, dir string) login {
		return startPeer(t, findPython(t, "python3-paramiko", "paramiko_server.py"), dir, "/")
	},
}

// It serves the whole machine, beginning in dir. It also puts dir before the text of a relative
// link, and ignores it for statvfs. A move replaces an existing file.
var pkgsftpServer = sftpServer{
	name:  "pkg/sftp",
	lacks: " copy links statvfs refusal ",
	start: func(t *testing.T, dir string) login {
		p := findPkgSFTP(t)
		p.args = []string{"serve"}
		return startPeer(t, p, dir, dir)
	},
}

var listeningOn = regexp.MustCompile(`(?m)listening on (127\.0\.0\.1:[0-9]+)$`)

// startPeer starts a server of testdata: PROGRAM DIR HOSTKEY AUTHORIZED ARGS...
func startPeer(t *testing.T, p program, dir, home string, args ...string) login {
	t.Helper()
	args = append([]string{dir, must[keyPair](t)(hostKey()).file, must[keyPair](t)(userKey()).file + ".pub"}, args...)
	d := p.start(t, args...)
	if !d.awaitLine(t, "listening on 127.0.0.1:") {
		t.Fatalf("the server ended at once: %v", d.err)
	}
	m := listeningOn.FindStringSubmatch(d.said(50))
	if m == nil {
		t.Fatal("the server does not say where it listens")
	}
	return newLogin(t, m[1], dir, home)
}

// lacking reports whether one of several lists contains a feature.
func lacking(feature string, lists ...string) bool {
	for _, list := range lists {
		if strings.Contains(list, " "+feature+" ") {
			return true
		}
	}
	return false
}

package peer

import (
	"errors"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"
)

// Cipher is the cipher of all SFTP clients and servers. If each program chose its own cipher, the
// measurement would compare ciphers.
const Cipher = "aes128-gcm@openssh.com"

// sshdDir is the directory in which sshd confines its unprivileged process. Its path is compiled
// into sshd, and the directory is made at boot if sshd is installed.
const sshdDir = "/run/sshd"

// At returns the name by which an SFTP server that serves dir knows the file dir/name.
func (s *Server) At(dir, name string) string {
	if s.rooted {
		return "/" + name
	}
	return filepath.Join(dir, name)
}

// ofProgram returns the recipe for a program of package sftpprog as a server.
func ofProgram(name string, p program, version string) Server {
	return Server{
		Name: name, Version: version, Path: p.path, Build: p.build(), Uploads: Disk, tcp: true,
		args: func(o Options, a netip.AddrPort) []string {
			args := []string{"serve", "-addr", a.String(), "-key", o.Keys.Host, "-trust", o.Keys.Authorized, "-cipher", Cipher, "-dir", o.Dir}
			if o.Delay {
				args = append(args, "-delay")
			}
			return args
		},
	}
}

// haulSFTP returns the recipe for haul serve with SFTP and a users file.
func haulSFTP(path, help string) Server {
	return Server{
		Name: "haul", Path: path, Uploads: Disk, tcp: true, rooted: true,
		args: func(o Options, a netip.AddrPort) []string {
			args := []string{"serve", o.Dir, "--sftp", a.String(), "--users", o.Keys.Users, "--host-keys", filepath.Dir(o.Keys.Host)}
			if strings.Contains(help, "--quiet ") {
				args = append(args, "--quiet")
			}
			return args
		},
	}
}

// sshd returns the recipe for OpenSSH's server with its defaults: only its address, the user and
// the cipher are set.
func sshd(p program) (Server, error) {
	if _, err := user.Lookup("sshd"); err != nil && os.Getuid() == 0 {
		return Server{}, errors.New("there is no user sshd, which it becomes until somebody has logged in; useradd --system sshd makes one")
	}
	return Server{
		Name: "sshd", Version: p.version("-V"), Path: p.path, Build: p.build(), Uploads: Disk,
		env: p.env, tcp: true, makes: sshdDir,
		args: func(o Options, a netip.AddrPort) []string {
			args := []string{"-D", "-e", "-f", "/dev/null", "-h", o.Keys.Host}
			for _, option := range []string{
				"ListenAddress=" + a.String(), "AuthorizedKeysFile=" + o.Keys.Authorized, "StrictModes=no", "PidFile=none",
				"PermitRootLogin=yes", "PasswordAuthentication=no", "Subsystem=sftp internal-sftp",
				"Ciphers=" + Cipher, "LogLevel=ERROR",
			} {
				args = append(args, "-o", option)
			}
			return args
		},
	}, nil
}

// module returns the version of the module with the given path that the program was built from.
func (p program) module(path string) string {
	for _, m := range p.modules() {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}

//go:build unix

package interop

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// A certificate defines who may log in, until when, from where, and with which permissions.
type certificate struct {
	users   []string
	expired bool
	options map[string]string // critical options
}

// certify signs userKey's public half, and returns the path of the certificate.
func certify(t *testing.T, authority keyPair, c certificate) string {
	t.Helper()
	now := time.Now()
	cert := &ssh.Certificate{
		Key: must[keyPair](t)(userKey()).signer.PublicKey(), CertType: ssh.UserCert, KeyId: "interop",
		ValidPrincipals: c.users, ValidAfter: uint64(now.Add(-2 * time.Hour).Unix()), ValidBefore: uint64(now.Add(time.Hour).Unix()),
	}
	if c.expired {
		cert.ValidBefore = uint64(now.Add(-time.Hour).Unix())
	}
	cert.CriticalOptions = c.options
	if err := cert.SignCert(rand.Reader, authority.signer); err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "id-cert.pub"), ssh.MarshalAuthorizedKey(cert))
}

var certificateCases = []struct {
	name    string
	c       certificate
	refused bool
}{
	{"good", certificate{users: []string{"other", "haul"}}, false},
	{"from here", certificate{users: []string{"haul"}, options: map[string]string{"source-address": "127.0.0.0/8,::1"}}, false},
	{"another's", certificate{users: []string{"other"}}, true},
	{"expired", certificate{users: []string{"haul"}, expired: true}, true},
	{"from elsewhere", certificate{users: []string{"haul"}, options: map[string]string{"source-address": "192.0.2.0/24"}}, true},
	{"unknown option", certificate{users: []string{"haul"}, options: map[string]string{"none@example.org": ""}}, true},
}

// Our client logs in to sshd with certificates.
func TestSFTPCertificatesClient(t *testing.T) {
	authority := must[keyPair](t)(newKeyPair(t.TempDir(), "authority"))
	dir := realDir(t)
	// The key itself is not accepted here.
	l := startSSHD(t, dir, "Subsystem sftp internal-sftp", "TrustedUserCAKeys "+authority.file+".pub", "AuthorizedKeysFile none")
	for _, c := range certificateCases {
		l := l
		l.cert = certify(t, authority, c.c)
		if _, err := haulDriver.try(t, job{}, l, []string{"list", "."}); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := haulDriver.try(t, job{}, l, []string{"list", "."}); err == nil {
		t.Error("the bare key has opened it")
	}
}

// OpenSSH's sftp logs in to our server with certificates, and the server enforces everything in
// them.
func TestSFTPCertificatesServer(t *testing.T) {
	authority := must[keyPair](t)(newKeyPair(t.TempDir(), "authority"))
	users := filepath.Join(t.TempDir(), "users")
	text := "authority " + authority.line() + "user haul\n"
	if err := os.WriteFile(users, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := realDir(t)
	write(t, filepath.Join(dir, "file"), content(1000))
	l, _ := beginSFTP(t, dir, "--users", users, "--sftp-exempt", "127.0.0.0/8")
	cases := append(certificateCases, struct {
		name    string
		c       certificate
		refused bool
	}{"for sftp", certificate{users: []string{"haul"}, options: map[string]string{"force-command": "internal-sftp"}}, false})
	for _, c := range cases {
		l := l
		l.cert = certify(t, authority, c.c)
		tl := newSFTPTool(t, l)
		if err := tl.fails(t, "file", filepath.Join(t.TempDir(), "down")); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := newSFTPTool(t, l).fails(t, "file", filepath.Join(t.TempDir(), "down")); err == nil {
		t.Error("the bare key has opened it")
	}
	// A forced command cannot be overridden: this login may only read.
	l.cert = certify(t, authority, certificate{users: []string{"haul"}, options: map[string]string{"force-command": "internal-sftp -R"}})
	tl := newSFTPTool(t, l)
	down := filepath.Join(t.TempDir(), "down")
	tl.get(t, "file", down)
	wantFile(t, down, content(1000))
	a := haulDriver.do(t, l, []string{"put", down, "new"}, []string{"remove", "file"}, []string{"mkdir", "new"})
	for i, a := range a {
		if a.Kind != "permission" {
			t.Errorf("operation %d is not refused: %q", i, a.Error)
		}
	}
	wantOnly(t, dir, "file")
}

func wantOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	var got []string
	for _, e := range readDir(t, dir) {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("there is %q, want %q", got, names)
	}
}

// Our client logs in with a password to another server.
func TestSFTPPassword(t *testing.T) {
	dir := realDir(t)
	l := startPeer(t, asyncsshProgram(t), dir, "/", "correct horse")
	l.password = "correct horse"
	if a := haulDriver.do(t, l, []string{"list", "."}); a[0].Error != "" {
		t.Error(a[0].Error)
	}
	l.password = "wrong"
	if _, err := haulDriver.try(t, job{}, l, []string{"list", "."}); err == nil {
		t.Error("a wrong password opens it")
	}
}

// The server offers SFTP and nothing else, whatever OpenSSH's clients request.
func TestSFTPNothingElse(t *testing.T) {
	dir := realDir(t)
	l := serveSFTP(t, dir)
	up := write(t, filepath.Join(t.TempDir(), "up"), content(1000))
	config := l.sshConfig(t)
	scp, sshc := findOpenSSH(t, "scp"), findOpenSSH(t, "ssh")
	for what, try := range map[string]func() (string, error){
		"scp's old protocol": func() (string, error) {
			return runTool(t, scp, "", "-O", "-S", sshc.path, "-F", config, up, "server:new")
		},
		"a command":         func() (string, error) { return runTool(t, sshc, "", "-F", config, "server", "touch new") },
		"a shell":           func() (string, error) { return runTool(t, sshc, "touch new\n", "-T", "-F", config, "server") },
		"a terminal":        func() (string, error) { return runTool(t, sshc, "touch new\n", "-tt", "-F", config, "server") },
		"another subsystem": func() (string, error) { return runTool(t, sshc, "", "-F", config, "-s", "server", "netconf") },
		"forwarding":        func() (string, error) { return runTool(t, sshc, "", "-F", config, "-W", l.addr, "server") },
		"remote forwarding": func() (string, error) {
			return runTool(t, sshc, "", "-F", config, "-o", "ExitOnForwardFailure=yes", "-N", "-R", "0:"+l.addr, "server")
		},
	} {
		if out, err := try(); err == nil {
			t.Errorf("%s is not refused: %s", what, out)
		}
	}
	wantOnly(t, dir)
	// After all that, the server still works.
	newSCPTool(t, l).put(t, "new", up)
	wantFile(t, filepath.Join(dir, "new"), content(1000))
}

// The users file decides what users may do, and their clients report refusals.
func TestSFTPRights(t *testing.T) {
	for _, access := range []string{"read-only", "upload-only"} {
		t.Run(access, func(t *testing.T) {
			dir := realDir(t)
			write(t, filepath.Join(dir, "file"), content(1000))
			up := write(t, filepath.Join(t.TempDir(), "up"), content(2000))
			l, _ := beginSFTP(t, dir, "--users", usersFile(t, "access "+access))
			down := filepath.Join(t.TempDir(), "down")
			may := map[string]bool{"get": access == "read-only", "put": access == "upload-only"}
			for _, d := range append([]driver{haulDriver}, sftpPeerDrivers...) {
				ops := [][]string{{"get", "file", down}, {"put", up, "new-" + strings.ReplaceAll(d.name, "/", "-")},
					{"put", up, "file"}, {"remove", "file"}, {"rename", "file", "moved"}, {"chmod", "file", "600"}, {"symlink", "/etc", "etc"}}
				for i, a := range d.do(t, l, ops...) {
					allowed := may[ops[i][0]] && i < 2
					// Users who may upload learn which names exist.
					taken := i == 2 && access == "upload-only" && a.Kind != "not exist" && a.Error != ""
					if allowed != (a.Error == "") || !allowed && !taken && a.Kind != "permission" {
						t.Errorf("%s, %q: %s (%s)", d.name, ops[i], a.Error, a.Kind)
					}
				}
				if access == "upload-only" {
					wantFile(t, filepath.Join(dir, ops[1][2]), content(2000))
				}
			}
			wantFile(t, filepath.Join(dir, "file"), content(1000))
			want := 1
			if may["put"] {
				want += 1 + len(sftpPeerDrivers)
			}
			if left := readDir(t, dir); len(left) != want {
				t.Errorf("there is %v", left)
			}
		})
	}
}

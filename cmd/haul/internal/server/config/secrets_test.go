package config_test

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/serve"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/internal/certs"
)

// secretSettings are the settings that name a file or a directory of haul's own, with the lines of a
// configuration that set them to PATH.
var secretSettings = map[string]string{
	"cache.dir":      "cache.dir = 'PATH'\ncache.size = '1GB'\nfiles.root = ['10.0.0.0/8=https://192.0.2.1/']",
	"files.map":      "files.map = 'PATH'",
	"hook":           "[[hook]]\non = 'uploaded'\nrun = ['PATH']",
	"http.users":     "http.users = 'PATH'\nhttp.plain_passwords = true",
	"https.cert":     "https.listen = '127.0.0.1:0'\nhttps.cert = 'PATH'\nhttps.key = 'PEM'",
	"https.key":      "https.listen = '127.0.0.1:0'\nhttps.cert = 'PEM'\nhttps.key = 'PATH'",
	"log.audit":      "log.audit = 'PATH'",
	"sftp.host_keys": "sftp.listen = '127.0.0.1:0'\nsftp.host_keys = 'PATH'\nsftp.users = 'USERS'",
	"sftp.users":     "sftp.listen = '127.0.0.1:0'\nsftp.host_keys = 'KEYS'\nsftp.users = 'PATH'",
	"status.cert":    "status.listen = '127.0.0.1:0'\nstatus.users = 'USERS'\nstatus.cert = 'PATH'\nstatus.key = 'PEM'",
	"status.key":     "status.listen = '127.0.0.1:0'\nstatus.users = 'USERS'\nstatus.cert = 'PEM'\nstatus.key = 'PATH'",
	"status.users":   "status.listen = '127.0.0.1:0'\nstatus.users = 'PATH'\nstatus.cert = 'PEM'",
	"tftp.pcap":      "tftp.pcap = 'PATH'",
}

// moreSecrets are more ways in which a configuration can name a file.
var moreSecrets = map[string]string{
	"a key in the certificate's file": "https.listen = '127.0.0.1:0'\nhttps.cert = 'PATH'",
	"a status key in its certificate": "status.listen = '127.0.0.1:0'\nstatus.users = 'USERS'\nstatus.cert = 'PATH'",
	"a hook's key":                    "[[hook]]\non = 'uploaded'\nurl = 'http://127.0.0.1:9/'\nkey = 'PATH'",
	"a hook's argument":               "[[hook]]\non = 'uploaded'\nrun = ['/bin/sh', 'PATH']",
	"a directory as an argument":      "[[hook]]\non = 'uploaded'\nrun = ['/bin/run-parts', 'DIR/hooks.d']",
	"an option of a hook's program":   "[[hook]]\non = 'uploaded'\nrun = ['/bin/sh', '--rcfile=PATH']",
	"an argument that is relative":    "[[hook]]\non = 'uploaded'\nrun = ['/bin/sh', 'RELATIVE']",
	"a link in the served directory":  "files.map = 'DIR/link'",
	"a link to the served directory":  "files.map = 'LINK/secret'",
}

// publicSettings are the settings that name files or directories that clients may have, and those
// that accept any text but name no file.
var publicSettings = map[string]string{
	"boot.default":       "the name of a menu entry",
	"boot.interfaces":    "names of interfaces",
	"boot.loader_dir":    "a served directory",
	"boot.hosts":         "names below the served directories",
	"files.per_client":   "one of two words",
	"files.shared":       "a truth value",
	"dirs":               "served directories",
	"files.root":         "served directories",
	"files.upload_dir":   "a directory for uploads",
	"http.index":         "a name below the served directories",
	"log.format":         "one of two words",
	"log.audit_hash":     "one word",
	"metrics.listen":     "an address",
	"http.hosts":         "names of hosts",
	"source.redirect_to": "names of hosts",
	"status.hosts":       "names of hosts",
	"status.listen":      "an address",
	"sftp.listen":        "addresses",
	"tftp.listen":        "addresses",
	"http.listen":        "addresses",
	"https.listen":       "addresses",
	"tcp.congestion":     "an algorithm",
	"user":               "an account",
}

// No file or directory that a setting names may be in a served directory: a client who could replace
// it would control the server after the next reload. A new setting that can hold a path has to be in
// one of the lists above.
func TestSecretsServed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no hooks, and links need rights")
	}
	top := t.TempDir()
	dir := filepath.Join(top, "served")
	path := filepath.Join(dir, "secret")
	servetest.WriteFile(t, filepath.Join(dir, "hooks.d", "one"), "")
	for link, target := range map[string]string{filepath.Join(dir, "link"): filepath.Join(top, "rules"), filepath.Join(top, "link"): dir} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	servetest.WriteFile(t, filepath.Join(top, "rules"), "")
	if _, _, err := certs.Own(top, nil, "localhost"); err != nil {
		t.Fatal(err)
	}
	pem, err := os.ReadFile(certs.OwnFile(top))
	if err != nil {
		t.Fatal(err)
	}
	const user = "user alice\n  key ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBRnbShvmbeCMdM0bJzGVvTYaDxVJTlcxnLxXvkvOc4V\n"
	if err := os.WriteFile(filepath.Join(top, "users"), []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{"https.cert": string(pem), "https.key": string(pem), "status.cert": string(pem), "status.key": string(pem),
		"a key in the certificate's file": string(pem), "a status key in its certificate": string(pem), "a hook's key": "0123456789abcdef",
		"http.users": user, "sftp.users": user, "status.users": user, "files.map": ""}
	relative, err := filepath.Rel("/", path)
	if err != nil {
		t.Fatal(err)
	}
	words := strings.NewReplacer("PATH", path, "PEM", certs.OwnFile(top), "USERS", filepath.Join(top, "users"), "RELATIVE", relative, "KEYS", filepath.Join(top, "keys"), "DIR", dir, "LINK", filepath.Join(top, "link"))
	refused := func(what, file, text string) {
		t.Helper()
		_ = os.RemoveAll(path)
		if content, ok := contents[what]; ok || what != "sftp.host_keys" && what != "cache.dir" {
			if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		text = "dirs = ['" + dir + "']\ntftp.listen = '127.0.0.1:0'\nhttp.listen = '127.0.0.1:0'\n" + text + "\n"
		cfg, err := config.New().Resolve(config.Sources{File: file, Given: func(string) bool { return false },
			Lookup: func(string) (string, bool) { return "", false }, Read: func(string) ([]byte, error) { return []byte(text), nil }})
		if err == nil {
			err = serve.DryRun(cfg, io.Discard)
		}
		if err == nil || !strings.Contains(err.Error(), "which is served") {
			t.Errorf("%s: the error is %v, for\n%s", what, err, text)
		}
	}
	for _, one := range config.New().All() {
		text, secret := secretSettings[one.Key]
		_, public := publicSettings[one.Key]
		holdsPath := config.New().Set(one.Key, config.Origin{}, path) == nil || regexp.MustCompile(`FILE|DIR|HOOK`).MatchString(one.Help)
		switch {
		case secret && public:
			t.Errorf("%s is in both lists", one.Key)
		case !secret && !public && holdsPath:
			t.Errorf("%s accepts a path: say in one of the lists whether clients may have the file, and add a secret file to the list of its service", one.Key)
		case secret:
			refused(one.Key, filepath.Join(top, config.FileName), words.Replace(text))
		}
	}
	for what, text := range moreSecrets {
		refused(what, filepath.Join(top, config.FileName), words.Replace(text))
	}
	refused("the configuration", path, "")
}

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
)

// writeConfig writes a configuration file, and returns its name.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "haul.toml")
	writeFile(t, name, text)
	return name
}

// A file with mistakes is refused before anything is opened: by config check, by serve
// and by its dry run, with each mistake on a line of its own.
func TestConfigMistakes(t *testing.T) {
	name := writeConfig(t, "dirs = ['/srv']\n[tftp]\nsingel_port = true\nmtu = 5\n")
	for _, args := range [][]string{{"config", "check", name}, {"config", "check", "--config", name}, {"serve", "--config", name}, {"serve", "-n", "--config", name}, {"config", "show", "--config", name}} {
		code, out, message := haul(t, args...)
		want := "haul: " + name + `:3:1: [tftp] has no key singel_port; did you mean single_port?` + "\n" + name + ":4:1: tftp.mtu 5: it is auto, none, or 68 to 65535 bytes\n2 mistakes"
		if code != exitUsage || out != "" || "haul: "+message != want {
			t.Errorf("haul %q: exit code %d, %s%s; want %d and %s", args, code, out, message, exitUsage, want)
		}
	}
}

// Errors of a server that runs are no mistakes of its configuration, and are not counted as
// such.
func TestServeErrorsAreNoMistakes(t *testing.T) {
	run := runServer
	runServer = func(context.Context, settings.Config, io.Writer) error {
		return errors.Join(errors.New("TFTP ended"), errors.New("HTTP ended"))
	}
	defer func() { runServer = run }()
	if code, _, message := haul(t, "serve", t.TempDir()); code != exitFailed || message != "TFTP ended\nHTTP ended" {
		t.Errorf("exit code %d, %q", code, message)
	}
}

// A file that is in order may name what does not exist. That is found without a socket.
func TestConfigCheckOpensFiles(t *testing.T) {
	dir := t.TempDir()
	keys := filepath.Join(t.TempDir(), "keys")
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir())
	t.Setenv("HAUL_SFTP_HOST_KEYS", keys)
	pcap := filepath.Join(t.TempDir(), "pcap")
	name := writeConfig(t, "dirs = ['"+dir+"']\nuser = '65534'\ntftp = {listen = ':69', pcap = '"+pcap+"'}\nsftp.listen = ':22'\nstatus.listen = '127.0.0.1:9070'\n")
	code, out, message := haul(t, "config", "check", name)
	if code != 0 || message != "" || !strings.Contains(out, "would serve "+dir+" over TFTP on :69\n") || !strings.Contains(out, "would serve "+dir+" over SFTP on :22\n") ||
		!strings.Contains(out, "would serve the status page on http://127.0.0.1:9070/\n") {
		t.Errorf("exit code %d, %s%s", code, out, message)
	}
	for _, path := range []string{keys, pcap} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was created", path)
		}
	}
	if err := os.Unsetenv("HAUL_SFTP_HOST_KEYS"); err != nil {
		t.Fatal(err)
	}
	code, out, message = haul(t, "config", "check", writeConfig(t, "dirs = ['"+dir+"']\nhttps = {listen = ':443', cert = '"+dir+"/none.pem'}\n"))
	if code != exitLocal || !strings.Contains(message, "haul.toml:2:27: ") || !strings.Contains(message, "none.pem") {
		t.Errorf("exit code %d, %s%s", code, out, message)
	}
	code, _, message = haul(t, "config", "check", name, "--config", name)
	if code != exitUsage || !strings.Contains(message, "name one") {
		t.Errorf("exit code %d, %s", code, message)
	}
	code, out, message = haul(t, "config", "check", dir+"/none.toml")
	if code != exitLocal || !strings.Contains(message, "none.toml") {
		t.Errorf("exit code %d, %s%s", code, out, message)
	}
}

// Without DIR the file of the service is read, and only then.
func TestConfigDefaultFile(t *testing.T) {
	name := writeConfig(t, "dirs = ['/of/file']\ngrace = '7s'\n")
	t.Setenv("CONFIGURATION_DIRECTORY", filepath.Dir(name))
	for _, test := range []struct {
		args, want, not string
	}{
		{"config show --origin", `grace = "7s"  # ` + name + ":2:1\n", ""},
		{"config show /other", `dirs = ["/other"]`, "\ngrace"},
		{"config show --config " + name + " /other", "grace = \"7s\"\n", "/of/file"},
	} {
		code, out, message := haul(t, strings.Fields(test.args)...)
		if code != 0 || !strings.Contains(out, test.want) || test.not != "" && strings.Contains(out, test.not) {
			t.Errorf("haul %s: exit code %d, %s%s; want %q", test.args, code, out, message, test.want)
		}
	}
	t.Setenv("CONFIGURATION_DIRECTORY", t.TempDir())
	if code, out, message := haul(t, "config", "check"); code != exitUsage || !strings.Contains(message, "there is no file") {
		t.Errorf("exit code %d, %s%s", code, out, message)
	}
}

// Each value that a flag refuses is refused in a file too, with its line, and as a
// variable.
func TestConfigBadValues(t *testing.T) {
	settings := config.New()
	dir := t.TempDir()
	for _, b := range badValues {
		for _, s := range settings.All() {
			if s.Flag != b.flag || b.value == "" {
				continue
			}
			// The message names settings as the place does that it is about.
			says := strings.NewReplacer("--https", "HAUL_HTTPS_LISTEN", "--http", "HAUL_HTTP_LISTEN", "--upload", "HAUL_FILES_UPLOAD", "--cert", "HAUL_HTTPS_CERT").Replace(b.says)
			base := "dirs = ['" + dir + "']\n"
			if b.flag != "tftp" {
				base += "tftp.listen = '127.0.0.1:0'\n"
			}
			if strings.HasPrefix(b.flag, "sftp-") {
				base += "sftp.listen = '127.0.0.1:0'\n"
			}
			value := b.value
			if _, err := strconv.ParseInt(value, 10, 64); err != nil {
				value = "'" + value + "'"
			}
			name := writeConfig(t, base+s.Key+" = "+value+"\n")
			code, message := refuse(t, "serve", "--config", name)
			if code != exitUsage || !strings.HasPrefix(message, name+":") || !strings.Contains(message, s.Key) {
				t.Errorf("%s = %s: exit code %d, %q; want %d, and the line", s.Key, value, code, message, exitUsage)
			}
			t.Setenv(s.Variable(), b.value)
			code, message = refuse(t, "serve", "--config", writeConfig(t, base))
			if code != exitUsage || !strings.Contains(message, s.Variable()) || !strings.Contains(message, says) {
				t.Errorf("%s=%s: exit code %d, %q; want %d, and %q", s.Variable(), b.value, code, message, exitUsage, says)
			}
			if err := os.Unsetenv(s.Variable()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

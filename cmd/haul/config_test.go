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

// Errors of a running server are not mistakes in its configuration, and are not counted as such.
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

// Each value that a flag refuses is also refused in a file, with its line, and as a variable.
func TestConfigBadValues(t *testing.T) {
	settings := config.New()
	dir := t.TempDir()
	for _, b := range badValues {
		for _, s := range settings.All() {
			if s.Flag != b.flag || b.value == "" {
				continue
			}
			// The message names settings in the format of the place that they come from.
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

package convert_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/config/convert"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/golden"
)

// converters are keyed by the directory of their files in testdata.
var converters = map[string]struct {
	file    string
	convert func(file, text string) (string, error)
}{
	"tftpd-hpa": {"/etc/default/tftpd-hpa", convert.TFTPD},
	"dnsmasq":   {"/etc/dnsmasq.conf", convert.Dnsmasq},
}

// load returns the configuration that haul reads from a file.
func load(t *testing.T, dir, text string) (settings.Config, error) {
	t.Helper()
	name := filepath.Join(dir, config.FileName)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := resolve(config.New(), name)
	cfg.File = ""
	return cfg, err
}

func resolve(s *config.Settings, file string) (settings.Config, error) {
	return s.Resolve(config.Sources{
		File:   file,
		Given:  func(string) bool { return false },
		Lookup: func(string) (string, bool) { return "", false },
	})
}

// Each file is converted to the one in testdata. The result has the effect of these settings:
// KEY=VALUE, with semicolons between the parts of a list. -update rewrites the results.
func TestConvert(t *testing.T) {
	for name, settings := range map[string][]string{
		"tftpd-hpa/debian": {"tftp.listen=:69", "user=tftp", "dirs=/srv/tftp"},
		"tftpd-hpa/options": {
			"tftp.listen=192.0.2.1:69", "user=boot:net", "tftp.blksize=1468", "tftp.ports=4000-4007", "tftp.refuse=tsize", "files.map=/etc/tftpd.remap",
			"files.upload=overwrite", "dirs=/srv/tftp;/srv/more",
		},
		"tftpd-hpa/ipv6":    {"tftp.listen=[::]:69", "user=nobody", "tftp.blksize=1400", "tftp.refuse=blksize;windowsize", "dirs=/srv/c;/srv/a;b"},
		"tftpd-hpa/refused": {"tftp.listen=127.0.0.1:69", "user=nobody", "dirs=/srv/tftp"},
		"tftpd-hpa/unknown": {"tftp.listen=127.0.0.1:69", "user=nobody", "tftp.refuse=blksize2", "files.upload=create"},
		"dnsmasq/boot": {
			"tftp.listen=192.0.2.1:69;[2001:db8::1]:69", "user=dnsmasq:boot", "tftp.max_transfers=200", "tftp.mtu=1400", "tftp.refuse=blksize",
			"tftp.ports=4000-5000", "files.fold_case=true", "files.per_client=mac", "log.quiet=true", "dirs=/srv/tftp #1, boot",
		},
		"dnsmasq/interface": {"tftp.listen=127.0.0.1:69", "user=nobody", "dirs=/srv/tftp"},
		"dnsmasq/wrong":     {"tftp.listen=:69", "user=nobody", "tftp.single_port=true"},
	} {
		kind, _, _ := strings.Cut(name, "/")
		text, err := os.ReadFile(filepath.Join("testdata", name+".in"))
		if err != nil {
			t.Fatal(err)
		}
		c := converters[kind]
		got, err := c.convert(c.file, string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden.Compare(t, name+".toml", got)
		s := config.New()
		for _, setting := range settings {
			key, value, _ := strings.Cut(setting, "=")
			if err := s.Set(key, config.Origin{Variable: key}, strings.Split(value, ";")...); err != nil {
				t.Fatal(err)
			}
		}
		want, wantErr := resolve(s, "")
		loaded, err := load(t, t.TempDir(), got)
		if !reflect.DeepEqual(loaded, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%s: loaded as\n%+v (%v), want\n%+v (%v)", name, loaded, err, want, wantErr)
		}
	}
}

// If a file cannot be understood, the error has the line.
func TestUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		"A=1\nTFTP_OPTIONS=\"-s\nTFTP_USERNAME=tftp\n": "f:2: the quote \" is not closed",
		"\n\nTFTP_DIRECTORY=/srv/\xe9":                 "f:3: TFTP_DIRECTORY: the text is not UTF-8, and a configuration file of haul is",
	} {
		if _, err := convert.TFTPD("f", text); !errors.Is(err, failure.Usage) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// However many lines cannot be converted, the result is small.
func TestManyNotes(t *testing.T) {
	got, err := convert.Dnsmasq("f", strings.Repeat("tftp-x="+strings.Repeat("y", 200)+"\n", 5000))
	if err != nil || len(got) > 100_000 || !strings.Contains(got, "There are 4800 more lines") {
		t.Errorf("%d bytes, %v: %.200s", len(got), err, got)
	}
}

// fuzz checks that any text becomes a file that loads, or that has comments with the reasons.
func fuzz(f *testing.F, kind string) {
	names, err := filepath.Glob("testdata/" + kind + "/*.in")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	c := converters[kind]
	dir := f.TempDir() // one for all, because creating one takes longer than the rest
	f.Fuzz(func(t *testing.T, text string) {
		got, err := c.convert(c.file, text)
		if err != nil {
			if !errors.Is(err, failure.Usage) || !strings.HasPrefix(err.Error(), c.file+":") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		_, err = load(t, dir, got)
		if err != nil && !strings.Contains(got, "\n# "+c.file+": nothing to serve: ") {
			t.Errorf("%q: converted to\n%s\nwhich fails: %v", text, got, err)
		}
	})
}

func FuzzTFTPD(f *testing.F) { fuzz(f, "tftpd-hpa") }

func FuzzDnsmasq(f *testing.F) { fuzz(f, "dnsmasq") }

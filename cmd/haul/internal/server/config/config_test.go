package config_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/config"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/golden"
	"github.com/haul-project/haul/tcp"
)

// A source is the settings of a test.
type source struct {
	flags []string
	env   map[string]string
	file  string // its text; "" means no file
	dirs  []string
}

// resolve returns the settings of a source, and the resulting configuration. The file is named
// haul.toml.
func resolve(t testing.TB, from source) (*config.Settings, settings.Config, error) {
	t.Helper()
	s := config.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(flags)
	if err := flags.Parse(from.flags); err != nil {
		return s, settings.Config{}, err
	}
	sources := config.Sources{Dirs: from.dirs, Given: flags.Changed, Lookup: func(name string) (string, bool) {
		text, ok := from.env[name]
		return text, ok
	}}
	for name, text := range from.env {
		sources.Environ = append(sources.Environ, name+"="+text)
	}
	if from.file != "" {
		sources.File, sources.Read = config.FileName, func(string) ([]byte, error) { return []byte(from.file), nil }
	}
	cfg, err := s.Resolve(sources)
	return s, cfg, err
}

// write returns the output of "haul config show".
func write(t testing.TB, s *config.Settings, origins bool) string {
	t.Helper()
	var b strings.Builder
	if err := s.Write(&b, origins); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// samples are values of settings, as text and in the syntax of a file. Settings that accept true, 1
// or "x" need none.
var samples = map[string][2]string{
	"tftp.listen":               {"192.0.2.1:69,:6969", `["192.0.2.1:69", ":6969"]`},
	"tftp.ports":                {"4000-4003", `"4000-4003"`},
	"tftp.mtu":                  {"1500", "1_500"},
	"tftp.blksize":              {"1428", "1428"},
	"tftp.windowsize":           {"16", "0x10"},
	"tftp.refuse":               {"tsize,BLKSIZE 10.0.0.0/8", `["tsize,BLKSIZE 10.0.0.0/8"]`},
	"tftp.rollover":             {"1 10.2.0.0/16,192.0.2.7", `"1 10.2.0.0/16,192.0.2.7"`},
	"tftp.memory":               {"64MiB", `"64MiB"`},
	"tftp.trace":                {"192.0.2.7,10.0.0.0/8", `["192.0.2.7", "10.0.0.0/8"]`},
	"sftp.listen":               {":2022", `":2022"`},
	"tftp.bandwidth":            {"50MB", `"50MB"`},
	"tftp.bandwidth_per_client": {"1048576", "1048576"},
	"sftp.rate":                 {"50000", "50000"},
	"sftp.exempt":               {"10.0.0.0/8", `["10.0.0.0/8"]`},
	"http.listen":               {":80,[::1]:8080", `[":80", "[::1]:8080"]`},
	"https.listen":              {":443", `[":443"]`},
	"http.hosts":                {"files.example,nas.example", `["files.example", "nas.example"]`},
	"http.proxy":                {"10.0.0.1,unix", `["10.0.0.1", "unix"]`},
	"http.exempt":               {"10.0.0.0/8,192.0.2.0/24", `["10.0.0.0/8", "192.0.2.0/24"]`},
	"http.rate_per_source":      {"5M", `"5M"`},
	"sftp.proxy":                {"10.0.0.1,unix", `["10.0.0.1", "unix"]`},
	"http.rate":                 {"20M", `"20M"`},
	"files.root":                {"on=:6969=/srv/lab", `["on=:6969=/srv/lab"]`},
	"files.per_client":          {"mac", `"mac"`},
	"files.access":              {"deny read 10.0.0.0/8 *.key", `["deny read 10.0.0.0/8 *.key"]`},
	"files.upload":              {"create", `"create"`},
	"files.max_upload":          {"1GB", `"1GB"`},
	"dirs":                      {"/srv/a,/srv/b", `["/srv/a", "/srv/b"]`},
	"source.redirect_to":        {"cdn.example,10.0.0.1:8080", `["cdn.example", "10.0.0.1:8080"]`},
	"cache.size":                {"20GB", `"20GB"`},
	"cache.fresh":               {"1m0s", `"1m0s"`},
	"cache.stale":               {"1h0m0s", `"1h0m0s"`},
	"boot.interfaces":           {"eth0,eth1", `["eth0", "eth1"]`},
	"boot.files":                {"x64=shimx64.efi,bios=/lpxelinux.0", `["x64=shimx64.efi", "bios=/lpxelinux.0"]`},
	"boot.hosts":                {"52:54:00:12:34:56=ignore,52-54-00-12-34-57=direct", `["52:54:00:12:34:56=ignore", "52-54-00-12-34-57=direct"]`},
	"boot.relays":               {"10.0.0.0/8", `["10.0.0.0/8"]`},
	"boot.address":              {"192.0.2.9", `"192.0.2.9"`},
	"boot.timeout":              {"30s", `"30s"`},
	"allow":                     {"10.0.0.0/8", `"10.0.0.0/8"`},
	"deny":                      {"192.0.2.7", `["192.0.2.7"]`},
	"grace":                     {"1m30s", `"1m30s"`},
	"status.listen":             {"127.0.0.1:9070", `"127.0.0.1:9070"`},
	"status.hosts":              {"admin.example,status.example", `["admin.example", "status.example"]`},
	"metrics.listen":            {"127.0.0.1:9069", `"127.0.0.1:9069"`},
	"log.format":                {"json", `"json"`},
	"log.audit_hash":            {"sha256", `"sha256"`},
	"hook":                      {"on=uploaded,failed run=/bin/true 'a b'", `["on=uploaded,failed run=/bin/true 'a b'"]`},
}

// remoteRoot is a line of a file that names an upstream, because the settings of the cache require
// one.
const remoteRoot = "files.root = ['192.0.2.7=https://mirror.example/']"

// needs are lines of a file with the further settings that a setting requires.
var needs = map[string]string{
	"https.listen": "https.cert = 'x'", "https.cert": "https.listen = ':443'", "https.key": "https.listen = ':443'\nhttps.cert = 'x'",
	"http.users": "http.plain_passwords = true", "http.plain_passwords": "http.users = 'x'", "http.exempt": "http.users = 'x'\nhttp.plain_passwords = true",
	"files.shared": "files.per_client = 'ip'", "files.upload_dir": "files.upload = 'create'", "tftp.upload_parents": "files.upload = 'create'",
	"status.users": "status.listen = '127.0.0.1:9070'\nstatus.cert = 'x'", "status.cert": "status.listen = '127.0.0.1:9070'\nstatus.users = 'x'",
	"status.key":   "status.listen = '127.0.0.1:9070'\nstatus.users = 'x'\nstatus.cert = 'x'",
	"status.hosts": "status.listen = '127.0.0.1:9070'", "status.pprof": "status.listen = '127.0.0.1:9070'",
	"no_fsync":        "files.upload = 'create'",
	"tftp.trace_hex":  "tftp.trace = 'all'",
	"log.audit_hash":  "log.audit = 'x'",
	"boot.interfaces": "boot.answer = true", "boot.files": "boot.answer = true", "boot.hosts": "boot.answer = true",
	"boot.known_only": "boot.answer = true\nboot.hosts = ['52:54:00:12:34:56=ignore']",
	"boot.relays":     "boot.answer = true", "boot.address": "boot.answer = true", "boot.default": "boot.answer = true",
	"source.redirect_to": remoteRoot,
	"cache.dir":          "cache.size = '20GB'\n" + remoteRoot, "cache.size": "cache.dir = '/c'\n" + remoteRoot,
	"cache.fresh": "cache.dir = '/c'\ncache.size = '20GB'\n" + remoteRoot, "cache.stale": "cache.dir = '/c'\ncache.size = '20GB'\n" + remoteRoot,
}

// sample returns a value of a setting that is not its default, as text and in the syntax of a file.
func sample(s *config.Setting) (text, toml string) {
	if v, ok := samples[s.Key]; ok {
		return v[0], v[1]
	}
	switch s.Default() {
	case "false":
		return "true", "true"
	case "":
		return "x", `"x"`
	}
	if regexp.MustCompile(`^\d+$`).MatchString(s.Default()) {
		return "1", "1"
	}
	return "x", `"x"`
}

// Each setting can be set in the file, by a variable, and by the two names of its flag, with the
// same result. Reading the output of "config show" has that result too.
func TestEverySettingEveryWay(t *testing.T) {
	for _, one := range config.New().All() {
		if one.Key == "tcp.congestion" && !tcp.CanChooseCongestion {
			continue // TestCheck of package serve
		}
		text, toml := sample(one)
		base := ""
		if one.Key != "dirs" {
			base = "dirs = ['/srv']\n"
		}
		for _, service := range []string{"tftp", "sftp", "http"} {
			if one.Key != service+".listen" {
				base += service + ".listen = '127.0.0.1:0'\n"
			}
		}
		if need := needs[one.Key]; need != "" {
			base += need + "\n"
		}
		ways := map[string]source{
			"file":     {file: base + one.Key + " = " + toml + "\n"},
			"variable": {file: base, env: map[string]string{one.Variable(): text}},
		}
		if one.Flag != "" {
			ways["flag"] = source{file: base, flags: []string{"--" + one.Flag + "=" + text}}
			ways["long flag"] = source{file: base, flags: []string{"--" + one.LongFlag() + "=" + text}}
		} else {
			ways["arguments"] = source{file: base, dirs: strings.Split(text, ",")}
		}
		_, want, err := resolve(t, ways["file"])
		if err != nil {
			t.Errorf("%s: %v", one.Key, err)
			continue
		}
		if _, without, err := resolve(t, source{file: base}); err == nil && reflect.DeepEqual(want, without) {
			t.Errorf("%s = %s has no effect", one.Key, toml)
		}
		for way, from := range ways {
			s, got, err := resolve(t, from)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s by %s: %v\n got %+v\nwant %+v", one.Key, way, err, got, want)
				continue
			}
			shown := write(t, s, false)
			if _, again, err := resolve(t, source{file: shown}); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("%s by %s, as shown: %v\n got %+v\nwant %+v\n%s", one.Key, way, err, again, want, shown)
			}
		}
	}
	for key := range maps.Keys(needs) {
		if !strings.Contains(fmt.Sprint(keys()), key) {
			t.Errorf("%s is no key", key)
		}
	}
}

func keys() (all []string) {
	for _, one := range config.New().All() {
		all = append(all, one.Key)
	}
	return all
}

// A value of the wrong type is refused for each key. The error has its line and the expected type.
func TestWrongTypes(t *testing.T) {
	for _, key := range keys() {
		for _, toml := range []string{"{x = 1}", "1.5", "1979-05-27", "[[1]]"} {
			dirs := "dirs = '/srv'\n"
			if key == "dirs" {
				dirs = "\n"
			}
			_, _, err := resolve(t, source{file: dirs + key + " = " + toml + "\n"})
			if all := failure.Joined(err); len(all) != 1 || !strings.HasPrefix(all[0].Error(), "haul.toml:2:1: "+key+" ") || !strings.Contains(all[0].Error(), ": it is ") {
				t.Errorf("%s = %s: %v", key, toml, err)
			}
		}
	}
}

// A flag has precedence over a variable, a variable over the file, and the file over the default.
func TestPrecedence(t *testing.T) {
	file := "dirs = ['/file']\ngrace = '1s'\nuser = 'file'\ndeny = '192.0.2.1'\n[tftp]\nblksize = 512\n"
	s, cfg, err := resolve(t, source{
		file:  file,
		env:   map[string]string{"HAUL_USER": "variable", "HAUL_GRACE": "2s", "HAUL_DENY": "192.0.2.2", "HAUL_TFTP_BLKSIZE": ""},
		flags: []string{"--grace", "3s", "--deny", "192.0.2.3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%v %v %s %v %d", cfg.Dirs, cfg.Grace, cfg.User, cfg.Deny, cfg.TFTP.BlockSize)
	if want := "[/file] 3s variable [192.0.2.3/32] 512"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	shown := write(t, s, true)
	for _, want := range []string{`dirs = ["/file"]  # `, "haul.toml:1:1\n", `grace = "3s"  # --grace`, `user = "variable"  # HAUL_USER`, "# windowsize = 256  # default", "blksize = 512  # ", "haul.toml:6:1\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
}

// A name that cannot be in a file is not shown as another name.
func TestShowNotUTF8(t *testing.T) {
	s, _, err := resolve(t, source{dirs: []string{"/srv", "/srv\xff"}})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := s.Write(&b, false); err == nil || b.Len() > 0 || !strings.Contains(err.Error(), `dirs is "/srv,/srv\xff", which is not UTF-8`) {
		t.Errorf("%v, and wrote %q", err, b.String())
	}
}

// A list with several lines is refused; no part of it is ignored.
func TestVariableOfSeveralLines(t *testing.T) {
	for list, want := range map[string]string{
		"192.0.2.1\n192.0.2.2":           "on one line",
		"192.0.2.1\n192.0.2.2,192.0.2.3": "on one line",
		"192.0.2.1,192.0.2.2\n":          "<nil>",
	} {
		_, cfg, err := resolve(t, source{dirs: []string{"/srv"}, env: map[string]string{"HAUL_DENY": list}})
		if !strings.Contains(fmt.Sprint(err), want) || err == nil && len(cfg.Deny) != 2 {
			t.Errorf("HAUL_DENY=%q: %v, %v; want %s", list, cfg.Deny, err, want)
		}
	}
}

// Without selected protocols, TFTP and HTTP are served; otherwise the selected ones.
func TestDefaultProtocols(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "[:69] [:80] [] [] true true",
		"tftp.listen = ':70'": "[:70] [] [] [] false true",
		"http.listen = ':81'": "[] [:81] [] [] true false",
		"sftp.listen = ':22'": "[] [] [:22] [] true true",
		"tftp.blksize = 512":  "[:69] [:80] [] [] true true",
		"http = {listen = ':81', listing = true}\ntftp.listen = [':69', ':70']": "[:69 :70] [:81] [] [] false false",
	} {
		_, cfg, err := resolve(t, source{file: "dirs = '/srv'\n" + text})
		got := fmt.Sprint(cfg.TFTP.Listen, cfg.HTTP.Listen, cfg.SFTP.Listen, cfg.HTTP.ListenTLS, cfg.TFTP.Fallback != "", cfg.HTTP.Fallback != "")
		if err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

// All mistakes of a file are reported at once, each with its line and advice. -update rewrites the
// answers.
func TestMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/mistakes/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = resolve(t, source{file: string(text), env: map[string]string{"HAUL_HTTP_INDEX": "a/b"}})
		if !errors.Is(err, failure.Usage) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden.Compare(t, strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(name), "testdata/"), ".toml")+".txt", err.Error()+"\n")
	}
}

// A Windows editor writes a byte order mark, and ends lines with CR LF.
func TestFileFromWindows(t *testing.T) {
	_, cfg, err := resolve(t, source{file: "\ufeffdirs = '/srv'\r\n[tftp]\r\nblksize = 512\r\n"})
	if err != nil || cfg.TFTP.BlockSize != 512 {
		t.Errorf("block size %d, %v", cfg.TFTP.BlockSize, err)
	}
}

// Reading stops early for a file that is not a configuration and has a mistake in each line.
func TestManyMistakes(t *testing.T) {
	lines, inline := "", "\ntftp = {x = 1"
	for i := range 1000 {
		lines += fmt.Sprintf("k%d = 1\n", i)
		inline += fmt.Sprintf(", k%d = 1", i)
	}
	for _, text := range []string{lines, inline + "}"} {
		_, _, err := resolve(t, source{file: text})
		many := failure.Joined(err)
		if want := "haul.toml: more than 100 mistakes; is this a configuration of haul?"; len(many) != 101 || many[100].Error() != want {
			t.Errorf("%d mistakes, want 101, the last %q: %v", len(many), want, many[len(many)-1])
		}
	}
}

// Messages name settings as they are named at their place. Flags of other commands and names of
// files are left alone.
func TestLocated(t *testing.T) {
	s, _, err := resolve(t, source{file: "dirs = '/srv'\nsftp = {listen = ':22', users = '/x--user/--map'}\n"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Located(failure.Mistake("users", `%s %s (see %s): no users for %q; %w, %s none`, failure.Flag("users"), "/x--user/--map", failure.Flag("sftp"),
		`--user " --root`, errors.New(`"haul user add NAME --users F" adds one`), failure.Flag("http2")))
	want := `haul.toml:2:25: sftp.users /x--user/--map (see sftp.listen): no users for "--user \" --root"; "haul user add NAME --users F" adds one, --http2 none`
	if err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A mistake that concerns two settings from different places names both as they appear there.
func TestTwoPlaces(t *testing.T) {
	file := "dirs = '/srv'\n[tftp]\nports = '4000-4003'\n"
	for _, test := range []struct {
		from source
		want string
	}{
		{source{file: file, flags: []string{"--sftp", ":22"}}, "haul.toml:3:1: tftp.ports is for TFTP, which is not served because of --sftp; add tftp.listen :69"},
		{source{file: file, flags: []string{"--tftp", "", "--http", ":80"}}, "haul.toml:3:1: tftp.ports is for TFTP, which is not served because of --tftp; add --tftp :69"},
		{source{file: file, env: map[string]string{"HAUL_HTTP_LISTEN": ":80"}}, "haul.toml:3:1: tftp.ports is for TFTP, which is not served because of HAUL_HTTP_LISTEN; add tftp.listen :69"},
		{source{file: file + "[sftp]\nlisten = ':22'\n"}, "haul.toml:3:1: tftp.ports is for TFTP, which is not served; add tftp.listen :69"},
		{source{file: "dirs = '/srv'\nsftp.listen = ':22'\n", flags: []string{"--ports", "4000"}}, "--ports is for TFTP, which is not served because of sftp.listen (haul.toml:2:1); add --tftp :69"},
		{source{file: file, flags: []string{"--single-port"}}, "--single-port and tftp.ports (haul.toml:3:1) exclude each other: with the first there is but one port"},
		{source{file: file, env: map[string]string{"HAUL_TFTP_SINGLE_PORT": "1"}}, "HAUL_TFTP_SINGLE_PORT and tftp.ports (haul.toml:3:1) exclude each other: with the first there is but one port"},
	} {
		if _, _, err := resolve(t, test.from); fmt.Sprint(err) != test.want {
			t.Errorf("%+v:\n got %v\nwant %s", test.from, err, test.want)
		}
	}
}

// A variable that is similar to that of a setting is a mistake, and the error suggests the name.
// Variables that an orchestrator sets for a service named haul, haul's own, and those of other
// programs are ignored.
func TestMisspelledVariables(t *testing.T) {
	for name, want := range map[string]string{
		"HAUL_TFTP_LISTN":      "there is no variable HAUL_TFTP_LISTN; did you mean HAUL_TFTP_LISTEN?",
		"HAUL_ALOW":            "there is no variable HAUL_ALOW; did you mean HAUL_ALLOW?",
		"HAUL_SINGLE_PORT":     "there is no variable HAUL_SINGLE_PORT; did you mean HAUL_TFTP_SINGLE_PORT?",
		"HAUL_TFTP":            "there is no variable HAUL_TFTP; did you mean HAUL_TFTP_LISTEN?",
		"HAUL_FILES_SOMETHING": "there is no variable HAUL_FILES_SOMETHING",
		"HAUL_TFTP_PORT":       "there is no variable HAUL_TFTP_PORT; did you mean HAUL_TFTP_PORTS?",
		"HAUL_ALLO\x1b":        `there is no variable HAUL_ALLO\x1b; did you mean HAUL_ALLOW?`,
	} {
		_, _, err := resolve(t, source{dirs: []string{"/srv"}, env: map[string]string{name: "4000"}})
		if fmt.Sprint(err) != want || !errors.Is(err, failure.Usage) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	others := map[string]string{"HAUL_ALOW": ""}
	for _, service := range []string{"HAUL", "HAUL_TFTP", "HAUL_HTTPS", "HAUL_FILES_2"} {
		for suffix, text := range map[string]string{
			"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "69", "SERVICE_PORT_TFTP": "69", "PORT": "udp://10.0.0.1:69", "PORT_69_UDP": "udp://10.0.0.1:69",
			"PORT_69_UDP_PROTO": "udp", "PORT_69_UDP_PORT": "69", "PORT_69_UDP_ADDR": "10.0.0.1", "PORT_80_TCP_ADDR": "10.0.0.1",
		} {
			others[service+"_"+suffix] = text
		}
	}
	for _, name := range []string{"HAUL_VERSION", "HAUL_CONFIG", "HAUL_HANDED", "HAUL_STARTER", "HAUL_SPAWNER", "HAUL_LINK_PEER", "HAUL", "XHAUL_ALOW", "haul_alow"} {
		others[name] = "x"
	}
	if _, _, err := resolve(t, source{dirs: []string{"/srv"}, env: others}); err != nil {
		t.Error(err)
	}
}

// docs/settings.md lists all settings. -update rewrites it.
func TestDocumentedSettings(t *testing.T) {
	var b strings.Builder
	b.WriteString("# The settings of haul serve\n\n" +
		"Each setting has a key in the file, a flag and a variable: see [the guide](guide.md#a-configuration-file).\n" +
		"The name of the variable follows from the key: tftp.single_port is HAUL_TFTP_SINGLE_PORT. So does a\n" +
		"second name of the flag: --tftp-single-port. A test keeps this table true.\n")
	group := "none yet"
	for _, s := range byGroup() {
		if s.Group != group {
			group = s.Group
			fmt.Fprintf(&b, "\n## %s\n\n| key | flag | default | what it does |\n|---|---|---|---|\n", cmp.Or(titles[group], group))
		}
		help := strings.ReplaceAll(s.Help, "`", "")
		flag, standard := "`--"+s.Flag+"`", "`"+s.Default()+"`"
		if s.Flag == "" {
			flag = "arguments"
		}
		if s.Default() == "" {
			standard = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, flag, standard, strings.ReplaceAll(help, "|", `\|`))
	}
	golden.Compare(t, "../../../../../../docs/settings.md", b.String())
}

// titles maps groups to their headings, if the name of the group is not suitable as a heading.
var titles = map[string]string{"": "What is served", "files": "Files", "boot": "Network boot", "limits": "Limits", "ops": "Running the server"}

// byGroup returns the settings in the order of the help: those without a group first.
func byGroup() (all []*config.Setting) {
	for _, group := range append([]string{""}, config.Groups...) {
		for _, s := range config.New().All() {
			if s.Group == group {
				all = append(all, s)
			}
		}
	}
	return all
}

// place matches the position of a mistake in a file.
var place = regexp.MustCompile(`^haul\.toml(:[1-9]\d*:[1-9]\d*)?: `)

// Any bytes are either a valid file, or one whose mistakes have positions.
func FuzzFile(f *testing.F) {
	files, err := filepath.Glob("testdata/mistakes/*.toml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("dirs = '/srv'\nuser = \"\\u007f\"\n")
	f.Add("dirs = '/srv'\ntftp = {listen = [':69'], mtu = 1_500}\n[files]\naccess = [\n'deny read * *.key', # comment\n]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if text == "" {
			return
		}
		s, cfg, err := resolve(t, source{file: text})
		if err != nil {
			for _, one := range failure.Joined(err) {
				if !errors.Is(one, failure.Usage) {
					t.Errorf("%q: not a mistake in use: %v", text, one)
				}
			}
			for line := range strings.Lines(err.Error()) {
				if !place.MatchString(line) {
					t.Errorf("%q: a mistake without a place: %q", text, line)
				}
			}
			return
		}
		shown := write(t, s, false)
		if _, again, err := resolve(t, source{file: shown}); err != nil || !reflect.DeepEqual(again, cfg) {
			t.Errorf("%q: shown as\n%s\nwhich is %+v (%v), and not %+v", text, shown, again, err, cfg)
		}
	})
}

// A file that is not a configuration is refused quickly, with a short message: one that is deeply
// nested, too long, or not regular. Opening a pipe would wait for a writer.
func TestHostileFiles(t *testing.T) {
	for begin, want := range map[string]string{
		"allow = " + strings.Repeat("[", 100_000):                        "haul.toml:1:",
		"allow = " + strings.Repeat("{a=", 40_000):                       "haul.toml:1:",
		strings.Repeat("a.", 60_000) + "a = 1":                           "haul.toml:1:1: there is no key a.a.",
		"[" + strings.Repeat("a.", 60_000) + "a]":                        "haul.toml:1:2: there is no table [a.a.",
		"user = '" + strings.Repeat("x", 100_000) + "'":                  "haul.toml:1:1: user \"xxx",
		"allow = ['10.0.0.0/8', '" + strings.Repeat("x", 100_000) + "']": "haul.toml:1:1: allow [",
		"user = 'a\x00b'":     "haul.toml:1:",
		"\xff\xfed\x00i\x00":  "haul.toml:1:1: invalid character",
		"\"\\u202euser\" = 1": `haul.toml:1:1: there is no key "\u202euser"`,
	} {
		_, _, err := resolve(t, source{dirs: []string{"/srv"}, file: begin + "\n"})
		if text := fmt.Sprint(err); !strings.Contains(text, want) || len(text) > 300 || !errors.Is(err, failure.Usage) {
			t.Errorf("%.20s...: %.300s; want %s", begin, text, want)
		}
	}
	for _, name := range []string{os.DevNull, t.TempDir()} {
		if err := resolveFile(name); !strings.Contains(fmt.Sprint(err), name+": not a regular file") || !errors.Is(err, failure.Local) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// resolveFile reads the settings of a file on disk.
func resolveFile(name string) error {
	_, err := config.New().Resolve(config.Sources{
		Given:  func(string) bool { return false },
		Lookup: func(string) (string, bool) { return "", false },
		File:   name,
	})
	return err
}

// A file that everybody may write to is refused, because it names programs that the server runs.
func TestFileOfEverybody(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there, the mode of a file does not say who may write to it")
	}
	name := filepath.Join(t.TempDir(), config.FileName)
	if err := os.WriteFile(name, []byte("dirs = ['/srv']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{
		0o600: "", 0o664: "",
		0o666: name + ": everybody may write to it (mode 0666): chmod o-w " + name,
		0o602: name + ": everybody may write to it (mode 0602): chmod o-w " + name,
	} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if err := resolveFile(name); want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

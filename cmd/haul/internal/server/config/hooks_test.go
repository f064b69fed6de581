//go:build unix

package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

const someHooks = `dirs = ["/srv"]
[[hook]]
on = ["uploaded", "failed"]
run = ["/usr/local/bin/scan", "a b", "it's", ""]

[[hook]]
on = "login"
url = "https://example.org/in?a=b"
key = "/etc/haul/hook.key"
timeout = "5s"
[log]
audit = "/var/log/haul/audit.jsonl"
`

// Each table of a file is a hook, and "config show" prints it as a table.
func TestHookTables(t *testing.T) {
	s, cfg, err := resolve(t, source{file: someHooks})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, h := range cfg.Notify.Hooks {
		got = append(got, h.String())
	}
	want := []string{
		`on=uploaded,failed run=/usr/local/bin/scan 'a b' 'it'\''s' ''`,
		"on=login timeout=5s key=/etc/haul/hook.key url=https://example.org/in?a=b",
	}
	if !reflect.DeepEqual(got, want) || cfg.Notify.Audit == "" {
		t.Errorf("%q, want %q", got, want)
	}
	shown := write(t, s, true)
	if _, again, err := resolve(t, source{file: shown}); err != nil || !reflect.DeepEqual(again, cfg) {
		t.Errorf("%v: %+v\n%s", err, again.Notify.Hooks, shown)
	}
	for _, want := range []string{"[[hook]]  # haul.toml:2:3\non = [\"uploaded\", \"failed\"]\n", "[[hook]]  # haul.toml:6:3\non = [\"login\"]\n"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	// A flag or a variable has precedence over all tables.
	_, cfg, err = resolve(t, source{file: someHooks, flags: []string{"--hook", "on=boot run=/bin/a", "--hook", "on=boot run=/bin/b"}})
	if err != nil || len(cfg.Notify.Hooks) != 2 || cfg.Notify.Hooks[1].String() != "on=boot run=/bin/b" {
		t.Errorf("%v, %+v", err, cfg.Notify.Hooks)
	}
	_, cfg, err = resolve(t, source{file: someHooks, env: map[string]string{"HAUL_HOOK": "on=boot run=/bin/a b,c"}})
	if err != nil || len(cfg.Notify.Hooks) != 1 || cfg.Notify.Hooks[0].String() != "on=boot run=/bin/a b,c" {
		t.Errorf("%v, %+v", err, cfg.Notify.Hooks)
	}
}

// A list of hooks instead of tables is also shown as tables, with the position of the list.
func TestHookList(t *testing.T) {
	s, cfg, err := resolve(t, source{file: "dirs = [\"/srv\"]\nhook = [\"on=boot run=/bin/a\", \"on=boot run=/bin/b\"]\n"})
	if err != nil {
		t.Fatal(err)
	}
	shown := write(t, s, true)
	if _, again, err := resolve(t, source{file: shown}); err != nil || !reflect.DeepEqual(again, cfg) {
		t.Errorf("%v: %+v\n%s", err, again.Notify.Hooks, shown)
	}
	if n := strings.Count(shown, "[[hook]]  # haul.toml:2:1\n"); n != 2 {
		t.Errorf("the place is shown %d times in\n%s", n, shown)
	}
}

// All mistakes in hooks are reported, each with its line.
func TestHookMistakes(t *testing.T) {
	_, _, err := resolve(t, source{file: `dirs = ["/srv"]
[[hook]]
on = ["upload"]
run = "scan"
[[hook]]
on = ["uploaded"]
[[hook]]
on = ["uploaded"]
run = 5
colour = "red"
time_out = 5
timeout = 5
[hook.x]
[[hooks]]
[[tftp]]
`})
	for _, want := range []string{
		`haul.toml:3:1: [[hook]] on ["upload"]: there is no event "upload"`,
		`haul.toml:4:1: [[hook]] run "scan": "scan": the program needs its whole path`,
		"haul.toml:5:3: [[hook]]: a hook needs run",
		"haul.toml:9:1: [[hook]] run 5: it is a list of texts",
		"haul.toml:10:1: [[hook]] has no key colour",
		"haul.toml:11:1: [[hook]] has no key time_out; did you mean timeout?",
		"haul.toml:12:1: [[hook]] timeout 5: it is text in quotes",
		"haul.toml:13:2: there is no table [hook.x]",
		"haul.toml:14:3: there is no table [hooks]; did you mean hook?",
		"haul.toml:15:3: [[tftp]] begins one of several tables",
	} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
	if _, _, err := resolve(t, source{file: "dirs = '/srv'\n[hook]\non = ['boot']\n"}); !strings.Contains(fmt.Sprint(err), "haul.toml:2:2: [hook] is one of several tables, each of which begins with [[hook]]") {
		t.Error(err)
	}
}

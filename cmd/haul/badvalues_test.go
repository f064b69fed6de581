package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// badFlagValues are values that flags of the commands other than serve, bench, user, get and put
// refuse before they contact a server, with a part of the message.
var badFlagValues = []struct{ command, flag, value, says string }{
	{"doctor", "timeout", "x", "with its unit"},
	{"doctor", "timeout", "5", "with its unit"},
	{"doctor", "timeout", "0s", "--timeout 0s: must be above 0"},
	{"doctor", "timeout", "-1s", "must be above 0"},
	{"doctor", "max-bytes", "x", "haul help sizes"},
	{"doctor", "max-bytes", "0", "--max-bytes 0B: must be above 0"},
	{"doctor", "mtu", "x", "whole number"},
	{"doctor", "mtu", "67", "68 to 65535"},
	{"doctor", "mtu", "65536", "68 to 65535"},
	{"doctor", "mtu", "-1", "68 to 65535"},
	{"probe", "blksize", "7", "8 to 65464"},
	{"probe", "blksize", "65465", "8 to 65464"},
	{"probe", "windowsize", "65536", "65535"},
	{"probe", "timeout", "256s", "timeout"},
	{"probe", "utimeout", "1ms", "utimeout"},
	{"probe", "rollover", "2", "choose 0 or 1"},
	{"probe", "trace-hex", "x", "whole number"},
	{"map test", "from", "x", "such as 192.0.2.7"},
	{"ls", "port", "0", "1 to 65535"},
	{"ls", "port", "65536", "1 to 65535"},
	{"ls", "port", "x", "whole number"},
	{"ls", "option", "x", "KEY=VALUE"},
	{"ls", "option", "Port=x", "1 to 65535"},
	{"ls", "jump", ":", "destination"},
	{"ls", "ssh", "", "it takes a command"},
	{"ls", "ssh", "''", "it takes a command"},
	{"ls", "ssh", "'ssh", "a quotation mark is missing"},
	{"ls", "fingerprint", "", "it is empty"},
	{"ls", "cacert", "", "it is empty"},
	{"ls", "by-time", "x", "true or false"},
	{"ls", "by-size", "x", "true or false"},
	{"sftp-server", "umask", "888", "octal"},
	{"top", "every", "0s", "100ms or more"},
	{"top", "every", "x", "with its unit"},
	{"top", "fingerprint", "x", "64 hexadecimal digits"},
}

// Each flag for a number, a size or a time refuses other text, and every switch refuses a word.
// badFlagValues lists bad values of the other flags.
func TestBadFlagValues(t *testing.T) {
	targets := map[string][]string{"doctor": {"tftp://127.0.0.1:1/f"}, "probe": {"tftp://127.0.0.1:1/f"}, "map test": {"/dev/null"}, "ls": {"127.0.0.1:"}}
	refuse := func(command, flag, value, says string) {
		t.Helper()
		args := append(strings.Fields(command), "--"+flag+"="+value)
		code, out, msg := haul(t, append(args, targets[command]...)...)
		if code != exitUsage || out != "" || !strings.Contains(msg, says) || strings.Contains(msg, "strconv") {
			t.Errorf("haul %s --%s=%s: exit code %d, %s%s; want %d and %q", command, flag, value, code, out, msg, exitUsage, says)
		}
	}
	for _, b := range badFlagValues {
		refuse(b.command, b.flag, b.value, b.says)
	}
	kinds := map[string]string{
		"bool": "true or false", "boolfunc": "true or false", "int": "whole number", "duration": "with its unit", "SIZE": "haul help sizes",
		"float64": "number", "UMASK": "octal", "LEVEL": "QUIET, FATAL", "FACILITY": "LOCAL0", "uint64": "whole number", "int64": "whole number",
	}
	for _, cmd := range allCommands(newRoot()) {
		command := strings.TrimPrefix(cmd.CommandPath(), "haul ")
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if says := kinds[f.Value.Type()]; says != "" {
				refuse(command, f.Name, "%", says)
			} else if !slices.Contains([]string{"string", "stringSlice", "stringArray", "HOW", "COMMAND"}, f.Value.Type()) {
				t.Errorf("%s --%s: nothing checks values of type %s", command, f.Name, f.Value.Type())
			}
		})
	}
}

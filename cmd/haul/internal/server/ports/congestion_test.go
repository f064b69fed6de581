package ports

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/tcp"
)

// A congestion control that the kernel lacks is a mistake in the setting, and the error lists the
// available ones. On a system that offers no choice, every name is refused.
func TestCongestion(t *testing.T) {
	cfg := settings.Default()
	// Every Linux kernel has reno.
	cfg.Dirs, cfg.SFTP.Listen, cfg.Congestion = []string{"."}, []string{"127.0.0.1:0"}, "reno"
	err := cfg.Check()
	if !tcp.CanChooseCongestion {
		if mistake, ok := errors.AsType[*failure.Error](err); !ok || mistake.Setting != "tcp-congestion" {
			t.Errorf("a system without a choice: %v", err)
		}
		if _, err := tcp.Listen(t.Context(), "127.0.0.1:0", tcp.Options{Congestion: "reno"}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("package tcp of such a system: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		want []string // parts of the error; none if the setting is correct
	}{
		{"reno", nil},
		{"nonesuch", []string{`--tcp-congestion: congestion control "nonesuch": the kernel does not have it; it has `, "reno", "modprobe tcp_nonesuch"}},
	} {
		cfg.Congestion = test.name
		sockets, _, err := Listen(t.Context(), &cfg, &handover.Inherited{}, handover.SFTP, cfg.SFTP.Listen, tcp.Options{})
		CloseAll(sockets)
		if len(test.want) == 0 && err == nil {
			continue
		}
		mistake, ok := errors.AsType[*failure.Error](err)
		if !ok || mistake.Setting != "tcp-congestion" || !errors.Is(err, failure.Usage) ||
			slices.ContainsFunc(test.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

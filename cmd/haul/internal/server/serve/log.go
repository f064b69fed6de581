package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// log returns the log, in the format of the configuration.
func (cfg *Config) log(out io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if cfg.Quiet {
		level = slog.LevelWarn
	}
	return console.NewLogger(out, cfg.LogFormat == "json", level)
}

// say prints a message outside the log. With --log-format json it is a line of JSON, too.
func (cfg *Config) say(out io.Writer, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); cfg.LogFormat == "json" {
		slog.New(slog.NewJSONHandler(out, nil)).Info(text)
	} else {
		fmt.Fprintf(out, "haul: %s\n", console.Visible(text))
	}
}

// A sayFunc writes a line of the log.
type sayFunc = func(slog.Level, string, ...slog.Attr)

func sayTo(log *slog.Logger) sayFunc {
	return func(level slog.Level, msg string, attrs ...slog.Attr) {
		log.LogAttrs(context.Background(), level, msg, attrs...)
	}
}

package report

import "github.com/haul-project/haul/bench/suite/record"

// httpSmall returns the section about a small file over HTTP.
func (r *Report) httpSmall() Section {
	s := Section{
		Name: "http-small", Title: "HTTP: a small file",
		Intro: "Requests for one file, on connections that are kept. The server has one core, the load generator another. net/http is its FileServer; the floor answers from memory.",
	}
	for _, sc := range r.group("http-small") {
		s.Tables = append(s.Tables, r.byContender(Table{Name: sc.Name + "-figures", Caption: sc.Title}, "server",
			column{scenario: sc.Name, metric: record.CPUPerRequest, title: "server CPU us/request"},
			column{scenario: sc.Name, metric: record.CPUPerRequest, title: "haul to it", versus: true},
			column{scenario: sc.Name, metric: record.RequestRate, title: "requests/s"},
			column{scenario: sc.Name, metric: record.LatencyP50, title: "p50, ms"},
			column{scenario: sc.Name, metric: record.LatencyP99, title: "p99, ms"},
			column{scenario: sc.Name, metric: record.Failed, title: "failed"},
			column{scenario: sc.Name, metric: record.Memory, title: "peak memory, MB"},
		))
		s.Plots = append(s.Plots, r.bars("Server CPU for a request, us: "+sc.Title, sc.Name, record.CPUPerRequest))
	}
	return s
}

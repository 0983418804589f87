// Renders a Helm chart as `helm template` does, as far as alignd's chart needs it: text/template with
// sprig, and Helm's include, toYaml and required. Nothing of a cluster is known.
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml...]
//
// Later values override earlier ones, as with `helm --values`. Prints the objects, separated by ---.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func read(path string) object {
	text, err := os.ReadFile(path)
	check(err)
	values := object{}
	check(yaml.Unmarshal(text, &values))
	return values
}

// A null deletes the default, an object is merged, all else is replaced.
func merge(base, over object) {
	for key, value := range over {
		inner, isObject := value.(object)
		present, wasObject := base[key].(object)
		switch {
		case value == nil:
			delete(base, key)
		case isObject && wasObject:
			merge(present, inner)
		default:
			base[key] = value
		}
	}
}

// Helm gives the templates these names, with a capital letter.
func capitalised(chart object) object {
	result := object{}
	for key, value := range chart {
		result[strings.ToUpper(key[:1])+key[1:]] = value
	}
	return result
}

func main() {
	if len(os.Args) < 4 {
		check(fmt.Errorf("usage: render CHART RELEASE NAMESPACE [VALUES.yaml...]"))
	}
	dir := os.Args[1]
	values := read(filepath.Join(dir, "values.yaml"))
	for _, file := range os.Args[4:] {
		merge(values, read(file))
	}
	templates := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	delete(functions, "env") // as Helm
	delete(functions, "expandenv")
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out bytes.Buffer
		err := templates.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["required"] = func(message string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, fmt.Errorf("%s", message)
		}
		return value, nil
	}
	templates.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = templates.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	data := object{
		"Values":  values,
		"Chart":   capitalised(read(filepath.Join(dir, "Chart.yaml"))),
		"Release": object{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm", "Revision": 1, "IsInstall": true},
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		var out bytes.Buffer
		check(templates.ExecuteTemplate(&out, name, data))
		text := strings.TrimSpace(out.String())
		if text == "" {
			continue
		}
		if name == "NOTES.txt" {
			fmt.Fprintln(os.Stderr, text)
			continue
		}
		fmt.Printf("---\n%s\n", text)
	}
}

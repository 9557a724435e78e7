// SPDX-License-Identifier: Apache-2.0
#include "cli/completion_command.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "cli/shared_options.h"
#include "cost/machine/machine_file.h"
#include "search/portfolio/searcher_table.h"

namespace partita::cli {
namespace {

struct OptionText {
    std::string name;   ///< with its dashes
    std::string value;  ///< "" of a flag
    std::string help;
};

struct CommandText {
    std::string name;
    std::string summary;
    std::string positionals;  ///< "PLAN MODEL"
    std::vector<OptionText> options;
};

/// What all commands declare.
std::vector<CommandText> command_texts() {
    std::vector<CommandText> texts;
    for (const CommandRow& row : command_table()) {
        CLI::App app;
        const std::unique_ptr<Command> command = row.make();
        command->add_options(app);
        ConsoleOptions console;
        add_console_options(app, console);
        CommandText text{.name = std::string(row.name),
                         .summary = std::string(row.summary),
                         .positionals = {},
                         .options = {}};
        for (const CLI::Option* option : app.get_options()) {
            if (option->get_positional()) {
                text.positionals +=
                    fmt::format("{}{}", text.positionals.empty() ? "" : " ", option->get_name());
                continue;
            }
            for (const std::string& name : option->get_lnames()) {
                const bool is_flag = option->get_items_expected_max() == 0;
                text.options.push_back({.name = "--" + name,
                                        .value = is_flag ? "" : option->get_type_name(),
                                        .help = option->get_description()});
            }
        }
        texts.push_back(std::move(text));
    }
    return texts;
}

std::string names_of(const std::vector<OptionText>& options) {
    std::vector<std::string> names;
    for (const OptionText& option : options) names.push_back(option.name);
    return fmt::format("{}", fmt::join(names, " "));
}

std::string preset_names() {
    std::vector<std::string> names;
    for (const cost::Preset& preset : cost::presets()) names.push_back(preset.name);
    return fmt::format("{}", fmt::join(names, " "));
}

std::string searcher_names() {
    std::vector<std::string> names;
    for (const search::SearcherRow& row : search::searcher_table()) names.emplace_back(row.name);
    return fmt::format("{}", fmt::join(names, " "));
}

std::string for_bash(const std::vector<CommandText>& commands) {
    std::vector<std::string> names;
    std::string cases;
    for (const CommandText& command : commands) {
        names.push_back(command.name);
        cases +=
            fmt::format("    {}) options=\"{}\" ;;\n", command.name, names_of(command.options));
    }
    return fmt::format(R"(_partita() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} options=
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{} help version" -- "$current"))
        return
    fi
    case ${{COMP_WORDS[COMP_CWORD - 1]}} in
    --machine) options="{}" ;;
    --searcher | --searchers) options="{}" ;;
    esac
    if [[ -n $options ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current") $(compgen -f -X '!*.json' -- "$current"))
        return
    fi
    case ${{COMP_WORDS[1]}} in
{}    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _partita partita
)",
                       fmt::join(names, " "), preset_names(), searcher_names(), cases);
}

/// zsh runs completions that were written for bash.
std::string for_zsh(const std::vector<CommandText>& commands) {
    return "#compdef partita\nautoload -U +X bashcompinit && bashcompinit\n" + for_bash(commands);
}

/// In single quotes, as fish reads them.
std::string fish_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) {
        if (c == '\'' || c == '\\') quoted += '\\';
        quoted += c;
    }
    return quoted + "'";
}

std::string for_fish(const std::vector<CommandText>& commands) {
    std::string text;
    for (const CommandText& command : commands) {
        text += fmt::format("complete -c partita -n __fish_use_subcommand -a {} -d {}\n",
                            command.name, fish_quoted(command.summary));
        for (const OptionText& option : command.options) {
            text += fmt::format(
                "complete -c partita -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n",
                command.name, option.name.substr(2), option.value.empty() ? "" : " -r",
                fish_quoted(option.help));
        }
    }
    return text + fmt::format(
                      "complete -c partita -l machine -x -a '{}'\n"
                      "complete -c partita -l searcher -x -a '{}'\n",
                      preset_names(), searcher_names());
}

/// As roff reads it: no line begins with a control character, and minus signs can be searched for.
std::string roff(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '\\' || c == '-') escaped += '\\';
        escaped += c;
        if (c == '\n') escaped += "\\&";
    }
    return "\\&" + escaped;
}

std::string manual(const std::vector<CommandText>& commands) {
    std::string text = fmt::format(
        ".TH PARTITA 1 \"\" \"partita {}\"\n"
        ".SH NAME\npartita \\- decides how one neural network runs on many devices, and runs it "
        "that way\n"
        ".SH SYNOPSIS\n.B partita\n.I COMMAND\n[OPTIONS]\n.SH COMMANDS\n",
        PARTITA_VERSION);
    for (const CommandText& command : commands) {
        text += fmt::format(".TP\n.B {} {}\n{}\n", command.name, roff(command.positionals),
                            roff(command.summary));
    }
    for (const CommandText& command : commands) {
        text += fmt::format(".SH OPTIONS OF {}\n", command.name);
        for (const OptionText& option : command.options) {
            text += fmt::format(".TP\n.B {} {}\n{}\n", roff(option.name), roff(option.value),
                                roff(option.help));
        }
    }
    return text +
           ".SH EXIT STATUS\n0 done; 1 a bug; 2 wrong usage; 3 bad input; 4 infeasible; 5 device "
           "or "
           "communication failure; 6 a check failed.\n";
}

struct Form {
    std::string_view name;
    std::string (*write)(const std::vector<CommandText>& commands);
};
constexpr std::array kForms = {Form{"bash", for_bash}, Form{"zsh", for_zsh}, Form{"fish", for_fish},
                               Form{"man", manual}};

class CompletionCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        app.add_option("SHELL", form_,
                       "bash, zsh or fish: e.g. source <(partita completion bash); man: the manual "
                       "page, e.g. partita completion man > ~/.local/share/man/man1/partita.1")
            ->required()
            ->type_name("");
    }

    ExitCode run(Console& console) override {
        for (const Form& form : kForms) {
            if (form.name != form_) continue;
            console.print(form.write(command_texts()));
            return ExitCode::done;
        }
        throw UsageError(
            fmt::format("completion {}: unknown. There is: bash, zsh, fish, man.", form_));
    }

private:
    std::string form_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() {
    return std::make_unique<CompletionCommand>();
}

}  // namespace partita::cli

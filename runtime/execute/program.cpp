// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "plan/layout/layout.h"
#include "plan/problem/micro_batches.h"
#include "runtime/execute/clip_work.h"
#include "runtime/execute/combine_work.h"
#include "runtime/execute/meeting_work.h"
#include "runtime/execute/memory_meter.h"
#include "runtime/execute/nccl_groups.h"
#include "runtime/execute/output_pieces.h"
#include "runtime/execute/part_work.h"
#include "runtime/execute/residents.h"
#include "runtime/execute/send_work.h"
#include "runtime/kernels/causal_masks.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::OpId;
using graph::TensorId;
using graph::TensorRole;
using plan::Buffer;
using plan::BufferId;
using plan::Task;
using plan::TaskGraph;
using plan::TaskId;
using plan::TaskKind;

int Placement::workers() const {
    return worker.empty() ? 0 : 1 + *std::ranges::max_element(worker);
}

Program::Program() = default;
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

namespace {

class Builder {
public:
    Builder(const plan::Problem& problem, const plan::Strategy& strategy, const TaskGraph& tasks,
            const Sources& sources, const Placement& placement, const ProgramOptions& options)
        : problem_(problem),
          graph_(problem.graph()),
          strategy_(strategy),
          tasks_(tasks),
          sources_(sources),
          placement_(placement),
          options_(options),
          causal_masks_(graph_,
                        [this](graph::TensorId t) {
                            return sources_.read(t, graph::whole_region(graph_.tensor(t).shape));
                        }),
          residents_(problem, tasks, sources, placement) {}

    Program run(std::span<const TaskId> order) {
        position_.assign(tasks_.size(), -1);
        for (std::size_t i = 0; i < order.size(); ++i) {
            position_[order[i].index()] = static_cast<std::int64_t>(i);
        }
        program_.steps.resize(static_cast<std::size_t>(placement_.workers()));
        program_.shares.assign(tasks_.size(), 0);
        std::size_t values = tasks_.buffers.size();
        if (options_.peers != nullptr) {
            program_.exchange = std::make_unique<Exchange>(
                *options_.peers, plan_messages(tasks_, options_.peers->ownership), graph_, tasks_);
            values += program_.exchange->messages().messages_in;
        }
        program_.nccl =
            std::make_unique<NcclGroups>(options_.nccl == nullptr ? nccl_library() : *options_.nccl,
                                         tasks_, placement_, names(), options_.peers);
        program_.uses.assign(values, 0);
        program_.lasting.assign(values, 0);
        program_.store.values.resize(values);
        find_predecessors();
        residents_.load(program_);
        for (const TaskId task : order) add_task(task);
        meter_device(-1);
        count_uses();
        if (options_.keep_outputs) find_outputs();
        program_.parameters = residents_.parameters();
        return std::move(program_);
    }

private:
    [[nodiscard]] const Task& task_of(TaskId id) const { return tasks_.tasks[id.index()]; }
    [[nodiscard]] const Buffer& buffer_of(BufferId id) const { return tasks_.buffers[id.index()]; }
    [[nodiscard]] std::span<const BufferId> writes(TaskId task) const {
        return tasks_.writes[task.index()];
    }
    [[nodiscard]] const graph::Region& region_of(const Buffer& buffer) const {
        return (*tasks_.regions)[buffer.region];
    }
    [[nodiscard]] at::Device device_of(int device) const {
        return placement_.device[static_cast<std::size_t>(device)];
    }
    /// Does this process drive it?
    [[nodiscard]] bool is_here(int device) const {
        return placement_.worker[static_cast<std::size_t>(device)] >= 0;
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> names;
        for (const cost::Device& device : problem_.machine().devices()) {
            names.push_back(device.name);
        }
        return names;
    }

    void find_predecessors() {
        std::vector<std::vector<TaskId>> before(tasks_.size());
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            for (const TaskId after : tasks_.successors[t]) {
                before[after.index()].emplace_back(t);
            }
        }
        for (const auto& list : before) {
            program_.predecessors.add_row(list);
        }
    }

    // Tasks.

    void add_step(TaskId task, int device, std::unique_ptr<Work> work,
                  std::vector<std::int32_t> messages = {}) {
        if (program_.exchange) {
            const auto tokens = program_.exchange->messages().awaited[task.index()];
            messages.insert(messages.end(), tokens.begin(), tokens.end());
        }
        if (!program_.first.valid()) program_.first = task;
        program_.last = task;
        ++program_.shares[task.index()];
        const int worker = placement_.worker[static_cast<std::size_t>(device)];
        program_.steps[static_cast<std::size_t>(worker)].push_back(
            {task, device, std::move(work), std::move(messages)});
    }

    void add_task(TaskId id) {
        const Task& task = task_of(id);
        const at::Device device = device_of(task.device);
        if (is_communication(task.kind) || is_local_move(task.kind)) {
            return add_combination(id, task);
        }
        if (task.kind == TaskKind::loss) return add_loss(id, task, device);
        if (task.kind == TaskKind::clip) return add_clip(id);
        if (!is_here(task.device)) return;
        switch (task.kind) {
        case TaskKind::forward:
        case TaskKind::recompute:
            add_step(id, task.device,
                     std::make_unique<ForwardWork>(problem_, tasks_, id, state_of(task), device,
                                                   leaves_tape(task)));
            break;
        case TaskKind::backward:
        case TaskKind::weights:
            add_step(id, task.device,
                     std::make_unique<BackwardWork>(problem_, tasks_, id, state_of(task), device));
            break;
        case TaskKind::update: add_update(id, task, device); break;
        case TaskKind::loss:
        case TaskKind::clip:
        case TaskKind::accumulate:
        case TaskKind::pack:
        case TaskKind::copy:
        case TaskKind::collective: break;
        }
    }

    /// A backward wants the tape of the forward that ran last, and a tape keeps what was read.
    [[nodiscard]] bool leaves_tape(const Task& task) const {
        const bool again = strategy_.ops[task.op.index()].recompute != plan::Recompute::none;
        return again == (task.kind == TaskKind::recompute);
    }

    /// Forward and backward find the same.
    std::shared_ptr<PartState> state_of(const Task& task) {
        auto& state = states_[{task.op.value, task.part, task.micro_batch}];
        if (state) return state;
        const graph::Op& op = graph_.op(task.op);
        const auto inner = [&sources = sources_](const graph::Tensor& tensor) {
            return sources.read_inner(tensor);
        };
        state = std::make_shared<PartState>(
            PartState{.kernel = {graph_, task.op, problem_.facts().rule(task.op),
                                 box_of(problem_, strategy_, task), device_of(task.device), inner},
                      .wanted = std::vector<char>(op.inputs.size(), 0),
                      .tape = {}});
        if (causal_masks_.decide(task.op, state->kernel.op())) {
            state->kernel.attend_causally();
        }
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const bool wanted = problem_.facts().has_backward(task.op) && op.inputs[i].valid() &&
                                problem_.facts().has_gradient(op.inputs[i]);
            state->wanted[i] = wanted ? 1 : 0;
        }
        return state;
    }

    void add_loss(TaskId id, const Task& task, at::Device device) {
        const graph::OpRule& rule = problem_.facts().rule(task.op);
        const graph::Shape& shape = graph_.tensor(graph_.op(task.op).inputs[0]).shape;
        const graph::Box box = box_of(problem_, strategy_, task);
        const graph::Region region = graph::region_of(rule, rule.operands[0], shape, box);
        auto& seen = losses_seen_[{task.op.value, task.micro_batch}];
        const bool counts = std::ranges::find(seen, region) == seen.end();
        if (counts) seen.push_back(region);
        if (!is_here(task.device)) return;
        auto work = std::make_unique<LossWork>(problem_, tasks_, id, box, device,
                                               LossOptions{.kind = strategy_.policy.loss,
                                                           .counts = counts,
                                                           .weighs_sums = options_.weigh_sums});
        program_.losses.push_back(work.get());
        add_step(id, task.device, std::move(work));
    }

    void add_update(TaskId id, const Task& task, at::Device device) {
        for (const BufferId b : writes(id)) {
            const Buffer& buffer = buffer_of(b);
            if (buffer.gradient) continue;
            const graph::Region& region = region_of(buffer);
            UpdateWork::Target target{.buffer = b, .kept = {}, .residents = {}, .own = {}};
            for (Resident& resident : residents_.residents_of(task.tensor, task.device, region)) {
                Patch from_resident(region_of(buffer_of(resident.buffer)), region);
                const bool holds =
                    from_resident.volume() == region.volume() && from_resident.is_box();
                if (holds && !target.kept) {
                    target.kept = Resident{resident.buffer, std::move(from_resident)};
                } else {
                    target.residents.push_back(std::move(resident));
                }
            }
            if (!target.kept) target.own = sources_.read(task.tensor, region).to(device);
            ClipFactor clip{.norm = norm_,
                            .place = norm_ ? norm_places_.at(task.device) : std::size_t{0}};
            auto work = std::make_unique<UpdateWork>(strategy_.policy.optimizer, options_.optimizer,
                                                     gradient_of(id, region), std::move(target),
                                                     std::move(clip));
            if (options_.keep_gradients) {
                work->keep_gradient();
                program_.gradients.push_back({work.get(), task.tensor, buffer.region});
            }
            program_.updates.push_back(work.get());
            add_step(id, task.device, std::move(work));
        }
    }

    /// What an update finds of its gradient.
    [[nodiscard]] Fetch gradient_of(TaskId update, const graph::Region& region) const {
        const Task& task = task_of(update);
        const auto type =
            scalar_type_of(graph_.tensor(task.tensor).type_of(true)).value_or(at::kFloat);
        return {tasks_, buffers_of(tasks_, update, task.tensor, true), region,
                at::TensorOptions().dtype(type).device(device_of(task.device))};
    }

    /// A share for each device here that updates anything.
    void add_clip(TaskId id) {
        std::vector<at::Device> places;
        for (const int device : devices_of(tasks_, id)) {
            if (!is_here(device)) continue;
            norm_places_[device] = places.size();
            places.push_back(device_of(device));
        }
        if (places.empty()) return;
        norm_ = std::make_shared<GradientNorm>(strategy_.policy.clip_norm, places);
        if (program_.exchange) {
            if (const Meeting* const meeting = program_.exchange->messages().meeting_of(id))
                join_norm(*meeting);
        }
        auto counted = counted_gradients();
        for (const auto& [device, place] : norm_places_) {
            add_step(id, device,
                     std::make_unique<ClipWork>(norm_, place, device_of(device),
                                                std::move(counted[device])));
        }
    }

    /// Each process is a rank, in the order of their first devices.
    void join_norm(const Meeting& meeting) {
        const Peers& peers = program_.exchange->peers();
        std::vector<int> first;
        int own = -1;
        for (const int device : devices_of(tasks_, meeting.task)) {
            const int process = peers.ownership.process_of(device);
            const bool met = std::ranges::any_of(
                first, [&](int other) { return peers.ownership.process_of(other) == process; });
            if (met) continue;
            if (process == peers.rank()) own = static_cast<int>(first.size());
            first.push_back(device);
        }
        norm_->join(*program_.exchange,
                    std::unique_ptr<MailboxCommunicator>(new MailboxCommunicator(
                        communicator_among(peers, first, own, meeting.first_number))));
    }

    /// Per device here: of each piece of a parameter the gradient on the first device that updates it.
    [[nodiscard]] std::map<int, std::vector<Fetch>> counted_gradients() const {
        std::map<int, std::vector<Fetch>> counted;
        std::set<std::pair<std::uint32_t, std::int32_t>> seen;  // parameter, region
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            const Task& task = tasks_.tasks[t];
            if (task.kind != TaskKind::update) continue;
            for (const BufferId b : writes(TaskId(t))) {
                const Buffer& buffer = buffer_of(b);
                if (buffer.gradient || !seen.emplace(task.tensor.value, buffer.region).second)
                    continue;
                if (!is_here(task.device)) continue;
                counted[task.device].push_back(gradient_of(TaskId(t), region_of(buffer)));
            }
        }
        return counted;
    }

    /// One share for each device that gets something here, and before them one for each that gives
    /// something to other processes.
    void add_combination(TaskId id, const Task& task) {
        if (const Meeting* const meeting = program_.nccl->meeting_of(id)) {
            return add_meeting(*meeting, [&](int device) -> std::unique_ptr<Work> {
                return std::make_unique<NcclMeeting>(program_.nccl->communicator(id, device),
                                                     tasks_, *meeting, device);
            });
        }
        if (program_.exchange) {
            if (const Meeting* const meeting = program_.exchange->messages().meeting_of(id)) {
                return add_meeting(*meeting, [&](int device) -> std::unique_ptr<Work> {
                    return std::make_unique<MessageMeeting>(*program_.exchange, tasks_, *meeting,
                                                            device);
                });
            }
            add_sends(id);
        }
        std::map<int, std::vector<BufferId>> by_device;
        for (const BufferId b : writes(id)) {
            if (buffer_of(b).region >= 0) by_device[buffer_of(b).device].push_back(b);
        }
        if (by_device.empty())
            by_device[task.device];  // moves nothing, and must be done all the same
        for (const auto& [device, results] : by_device) {
            if (is_here(device)) add_combination_on(device, id, task, results);
        }
    }

    void add_combination_on(int device, TaskId id, const Task& task,
                            const std::vector<BufferId>& results) {
        std::vector<std::vector<Resident>> residents(results.size());
        for (std::size_t i = 0; i < results.size(); ++i) {
            const Buffer& buffer = buffer_of(results[i]);
            if (!task.updated || buffer.message) continue;
            residents[i] = residents_.residents_of(buffer.tensor, device, region_of(buffer));
        }
        auto work = std::make_unique<CombineWork>(graph_, tasks_, id, results, std::move(residents),
                                                  device_of(device), program_.exchange.get());
        std::vector<std::int32_t> messages = work->messages();
        add_step(id, device, std::move(work), std::move(messages));
    }

    void add_sends(TaskId id) {
        std::map<int, std::vector<std::int32_t>> by_device;
        const Messages& messages = program_.exchange->messages();
        const auto [first, last] = messages.messages_from(id);
        for (std::int32_t message = first; message < last; ++message) {
            by_device[messages.out[static_cast<std::size_t>(message)].device].push_back(message);
        }
        for (const auto& [device, places] : by_device) {
            add_step(id, device, std::make_unique<SendWork>(*program_.exchange, tasks_, places));
        }
    }

    template <class MakeWork>
    void add_meeting(const Meeting& meeting, const MakeWork& work_of) {
        for (const int device : devices_of(tasks_, meeting.task)) {
            if (is_here(device)) add_step(meeting.task, device, work_of(device));
        }
    }

    void count_uses() {
        for (std::size_t t = 0; t < tasks_.size(); ++t) {
            if (program_.shares[t] == 0) continue;
            for (const BufferId b : tasks_.reads[t]) ++program_.uses[b.index()];
        }
    }

    // What comes out.

    void find_outputs() {
        const auto pieces = output_pieces(problem_, strategy_, tasks_, position_);
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            const OutputPiece& piece = pieces[i];
            if (!is_here(piece.device)) continue;
            ++program_.uses[piece.buffer.index()];
            program_.outputs.push_back({piece.buffer, piece.tensor, buffer_of(piece.buffer).region,
                                        static_cast<std::int64_t>(i)});
        }
    }

    const plan::Problem& problem_;
    const graph::OpGraph& graph_;
    const plan::Strategy& strategy_;
    const TaskGraph& tasks_;
    const Sources& sources_;
    const Placement& placement_;
    const ProgramOptions& options_;
    std::vector<std::int64_t> position_;  ///< in the order, per task
    CausalMasks causal_masks_;
    std::map<std::tuple<std::uint32_t, int, int>, std::shared_ptr<PartState>> states_;
    std::map<std::pair<std::uint32_t, int>, std::vector<graph::Region>> losses_seen_;
    std::shared_ptr<GradientNorm> norm_;      ///< null: nothing is clipped, or not yet
    std::map<int, std::size_t> norm_places_;  ///< by device
    Residents residents_;
    Program program_;
};

}  // namespace

Program make_program(const plan::Problem& problem, const plan::Strategy& strategy,
                     const TaskGraph& tasks, std::span<const TaskId> order, const Sources& sources,
                     const Placement& placement, const ProgramOptions& options) {
    return Builder(problem, strategy, tasks, sources, placement, options).run(order);
}

}  // namespace partita::runtime

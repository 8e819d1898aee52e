-- SPDX-License-Identifier: MIT
--
-- burst_buffer.lua - Slurm stages the dataset of a job on the nodes that the job will get, while the job waits. A job asks for it with
-- a line of its script, or with sbatch --bb:
--
--   #BB_LUA fmove SOURCE
--
-- It goes beside slurm.conf, which has BurstBufferType=burst_buffer/lua. The machine of slurmctld has an fmoved whose nodes have the
-- names that they have in Slurm.
--
-- Nodes are only planned while a job waits: those that it asked for by name, else those that the scheduler expects. If there are none, or
-- the plan changes, or this fails, the job loses nothing but time: its own first step (slurm-job.sh) stages what is missing. So nothing
-- here fails but a line that names no source.

local SOURCES_MAX = 8		-- of one job
-- A plan is looked for so long: the scheduler makes one every 30 s, unless bf_interval says another time. A job that has none by then, since
-- it might begin at once, begins.
local PLAN_SECONDS, PLAN_LOOK_SECONDS = 36, 2
local LINE_MAX = 4096		-- bytes of a line that asks for one
-- All of a job's sources together. StageInTimeout of burst_buffer.conf has to be longer: Slurm holds a job whose data_in it had to end.
local SECONDS_MAX = 6 * 3600

-- A word for the shell, whatever is in it.
local function quote(text)
	return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- The lines that a command printed, errors among them, and whether it succeeded. Lua 5.1 does not say how it ended.
local function run(command)
	local pipe = io.popen("{ " .. command .. "; } 2>&1; echo $?")
	local lines = {}

	if not pipe then
		return lines, false
	end
	for line in pipe:lines() do
		table.insert(lines, line)
	end
	pipe:close()
	return lines, table.remove(lines) == "0"
end

local function is_source(text)
	return text:find("^%w[%w._-]*:[^%c]+$") ~= nil and not text:find("^hf:")
end

-- What a line of the script asks for, without blanks around it; nil: nothing. slurmctld waits for this, whatever somebody wrote into his
-- script: so each step here goes through a line once.
local function source_of(line)
	local rest = line:match("^#BB_LUA%s+fmove%s(.*)$") or line:match("^#BB_LUA%s+fmove()$")

	if not rest then
		return nil
	end
	if type(rest) ~= "string" or #rest > LINE_MAX then
		return ""
	end
	rest = rest:match("^%s*(.*)$"):reverse()
	return rest:match("^%s*(.*)$"):reverse()
end

-- What the job's script asks for; or nil, and what is wrong.
local function sources_of(job_script)
	local file = io.open(job_script)
	local sources = {}

	if not file then
		return nil, "the job's script cannot be read"
	end
	for line in file:lines() do
		local source = source_of(line)

		if source and not is_source(source) then
			file:close()
			return nil, "#BB_LUA fmove wants a source, NODE:STORE/PATH; hf:ORG/NAME is staged by the job itself, on each node"
		end
		if source then
			table.insert(sources, source)
		end
	end
	file:close()
	if #sources > SOURCES_MAX then
		return nil, "more than " .. SOURCES_MAX .. " lines of #BB_LUA fmove"
	end
	return sources
end

-- Whose job it is, and its nodes between commas; nil: none are known yet.
local function plan_of(job_id)
	local lines = run("squeue --noheader --jobs " .. quote(job_id) .. " --format '%u|%n|%Y'")
	local user, asked, expected = (lines[1] or ""):match("^([%w._][%w._-]*)|([^|]*)|([^|]*)$")
	local list = asked ~= "" and asked ~= "(null)" and asked or expected
	local nodes, is_well

	if not user or list == "" or list == "(null)" or list == "N/A" then
		return user, nil
	end
	nodes, is_well = run("scontrol show hostnames " .. quote(list))
	return user, is_well and #nodes > 0 and table.concat(nodes, ",") or nil
end

-- The same, when there is a plan. Slurm may call before the scheduler has seen the job.
local function await_plan_of(job_id)
	local user, nodes = plan_of(job_id)

	for _ = 1, PLAN_SECONDS / PLAN_LOOK_SECONDS do
		if nodes or not user then
			break
		end
		run("sleep " .. PLAN_LOOK_SECONDS)
		user, nodes = plan_of(job_id)
	end
	return user, nodes
end

-- As the job's user, if slurmctld's user may: then his rights and his quota count. If not, slurmctld's user must be in the group fmove
-- and be one that may read the source; the job's own step asks again for the job's user.
local function stage(source, user, nodes, seconds)
	local command = "timeout " .. seconds .. " fmove stage --nodes " .. quote(nodes) .. " " .. quote(source)
	local own = run("id -u")

	if own[1] == "0" and #own == 1 then
		-- A shell of his is what holds the copies until they are there.
		command = "runuser -u " .. quote(user) .. " -- sh -c " .. quote(command .. "; exit")
	elseif #own ~= 1 or not own[1]:find("^%d+$") then
		return { "id does not say who slurmctld is" }, false
	end
	return run(command)
end

-- Within slurmctld, which waits for it. It only reads the script.
function slurm_bb_job_process(job_script)
	local sources, why = sources_of(job_script)

	if not sources then
		return slurm.ERROR, why
	end
	return slurm.SUCCESS
end

-- In a process of its own, while the job waits.
function slurm_bb_data_in(job_id, job_script)
	local sources, why = sources_of(job_script)
	local user, nodes
	local last = os.time() + SECONDS_MAX

	if sources and #sources > 0 then
		user, nodes = await_plan_of(job_id)
	end
	if not sources or not user or not nodes then
		slurm.log_info("fmove: job %s: nothing is staged ahead: %s", job_id, why or "no nodes are planned")
		return slurm.SUCCESS
	end
	for _, source in ipairs(sources) do
		local lines, is_well = stage(source, user, nodes, math.max(1, last - os.time()))

		for _, line in ipairs(lines) do
			slurm.log_info("fmove: job %s: %s", job_id, line)
		end
		slurm.log_info("fmove: job %s: %s on %s: %s", job_id, source, nodes, is_well and "staged" or "not staged")
	end
	return slurm.SUCCESS
end

-- Nothing is to be done then, and Slurm wants all of them.
local function nothing()
	return slurm.SUCCESS
end

slurm_bb_pools = nothing
slurm_bb_setup = nothing
slurm_bb_real_size = nothing
slurm_bb_paths = nothing
slurm_bb_pre_run = nothing	-- has 300 s, too few for a dataset
slurm_bb_post_run = nothing
slurm_bb_test_data_in = nothing	-- wanted from Slurm 23 on: data_in is done when it returns
slurm_bb_data_out = nothing
slurm_bb_test_data_out = nothing
slurm_bb_job_teardown = nothing
slurm_bb_get_status = nothing
